package schema

// Statements about what is read of cards, and what was.
const (
	// LexiconPrintings returns the words of the whole reference: set code, collector
	// number and artist of each printing.
	LexiconPrintings = `/* conveyor:lexicon-printings */
select set_code, collector_number, artist from printing order by id`

	// Stored returns the evidence of card $1 for content $2 as evidence.Evidence's
	// JSON, if it is of the card's present bytes.
	Stored = `/* conveyor:stored */
select jsonb_strip_nulls(jsonb_build_object(
  'versions', e.extractor_versions, 'skips', e.skips, 'fetch_ok', e.fetch_ok, 'width', e.width, 'height', e.height,
  'aspect_ratio', e.aspect_ratio, 'bleed_class', e.bleed_class, 'bleed_diff_mm', e.bleed_diff_mm,
  'layout_class', e.layout_class, 'crops', e.crop_boxes, 'artbox_phash', e.artbox_phash, 'symbol_phash', e.symbol_phash,
  'truncated', e.truncated, 'blur_variance', e.blur_variance, 'entropy', e.entropy,
  'colour_mean', e.colour_mean, 'colour_stddev', e.colour_stddev,
  'set_code', e.collector_set_code, 'collector_number', e.collector_number, 'collector_text', e.collector_text,
  'artist_text', e.artist_text, 'artist_name', e.artist_name, 'artist_anchor', e.artist_anchor,
  'legal_text', e.legal_text, 'copyright_year', e.copyright_year, 'proxy_marker', e.proxy_marker))
from image_evidence e join card c on c.id = e.card_id
where c.id = $1 and e.content_hash = $2 and e.fetch_ok
  and (e.md5_checksum is null or c.md5_checksum is null or e.md5_checksum = c.md5_checksum)`
)
