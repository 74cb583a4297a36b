package pipeline

import (
	"context"
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/cardgen"
	"deadwire/pipeline/evidence"
	"deadwire/pipeline/ocr"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// What is stored and read back must be what was measured, or else parts that are
// taken over would change on the way.
func TestStoredEvidenceComesBackAsItWas(t *testing.T) {
	t.Parallel()
	r := setup(t)
	args, image := r.card()
	args.DPI = 121
	_, err := r.handler.card(t.Context(), args, image)
	assert.NilError(t, err)
	measured, err := evidence.Extract(t.Context(), evidence.Input{Data: image, DPI: args.DPI})
	assert.NilError(t, err)
	raw, err := session.Value[json.RawMessage](t.Context(), r.handler.session, schema.Stored, args.Card, args.PHash)
	assert.NilError(t, err)
	var stored evidence.Evidence
	assert.NilError(t, json.Unmarshal(raw, &stored))
	again, err := evidence.Extract(t.Context(), evidence.Input{Data: image, DPI: args.DPI, Stored: &stored})
	assert.NilError(t, err)
	assert.DeepEqual(t, sorted(again), sorted(measured))
}

func sorted(e evidence.Evidence) map[evidence.Skip]evidence.Evidence {
	out := map[evidence.Skip]evidence.Evidence{}
	for _, s := range e.Skips {
		out[s] = evidence.Evidence{}
	}
	e.Skips = nil
	out[evidence.Skip{}] = e
	return out
}

// Only what went stale is computed again: the rest is taken over from the row.
func TestCurrentPartsAreCarriedForward(t *testing.T) {
	t.Parallel()
	r := setup(t)
	args, image := r.card()
	_, err := r.handler.card(t.Context(), args, image)
	assert.NilError(t, err)
	_, err = r.handler.session.Exec(t.Context(), `update image_evidence set artist_name = 'carried', layout_class = 'carried', entropy = 99,
		extractor_versions = extractor_versions || '{"layout_class":"0"}' where card_id = $1`, args.Card)
	assert.NilError(t, err)
	args.Stored = true
	_, err = r.handler.card(t.Context(), args, image)
	assert.NilError(t, err)
	assert.Equal(t, r.count("image_evidence where artist_name = 'carried' and entropy = 99 and layout_class <> 'carried'"), int64(1))
	args.Stored = false
	_, err = r.handler.card(t.Context(), args, image)
	assert.NilError(t, err)
	assert.Equal(t, r.count("image_evidence where artist_name is null and entropy < 9"), int64(1))
}

// A worker reads a large card's text with the words of the stored reference.
func TestWorkerReadsTextOfLargeCards(t *testing.T) {
	t.Parallel()
	if !ocr.Available() {
		t.Skip("no OCR engine")
	}
	r := setup(t)
	_, err := r.handler.session.Exec(t.Context(), "delete from printing") // both references claim the same slots
	assert.NilError(t, err)
	large := t.TempDir()
	_, err = cardgen.Write(t.Context(), large, cardgen.Spec{Cards: 1, Seed: 5, Width: 745, Height: 1040})
	assert.NilError(t, err)
	_, err = Import(t.Context(), r.database, large)
	assert.NilError(t, err)
	r.folder = large
	args, image := r.cardOf("card-5-000000")
	r.handler.text = newReaders(r.handler.lexicon)
	_, err = r.handler.card(t.Context(), args, image)
	assert.NilError(t, err)
	assert.Equal(t, r.count(`image_evidence e join printing p on p.set_code = e.collector_set_code and p.collector_number = e.collector_number
		and p.artist = e.artist_name and e.copyright_year is not null`), int64(1))
	assert.Assert(t, r.handler.text.reader != nil)
}

// A lexicon that cannot be loaded fails the job; it says nothing about the card.
func TestLexiconThatCannotBeLoadedFailsTheJob(t *testing.T) {
	t.Parallel()
	r := &readers{load: func(context.Context) (*ocr.Lexicon, error) { return nil, context.DeadlineExceeded }}
	found := r.ReadText(t.Context(), evidence.Page{})
	assert.Equal(t, found.Failure, evidence.SkipOCRFailed)
	assert.ErrorIs(t, r.err, context.DeadlineExceeded)
}
