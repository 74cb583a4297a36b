package dispatch_test

import (
	"context"
	"fmt"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// twin makes a card of the same bytes as another.
func (r *rig) twin(card, of int) {
	r.exec(`update card set md5_checksum = t.md5_checksum, content_phash = t.content_phash, name = t.name
		from card t where card.id = $1 and t.id = $2`, card, of)
}

func TestEvidenceOfATwinIsGivenWithoutAFetch(t *testing.T) {
	t.Parallel()
	r := setup(t, 6)
	r.twin(6, 1)
	total, err := r.stream()
	assert.NilError(t, err)
	assert.Equal(t, total.Transferred, 1)
	assert.Equal(t, total.Extracted, 5)
	assert.Equal(t, r.count(`image_evidence e join image_evidence d on d.card_id = 1 where e.card_id = 6 and e.transferred
		and e.transferred_from_card_id = 1 and e.run_id = 'run' and e.collector_number = d.collector_number
		and e.extractor_versions = d.extractor_versions and e.md5_checksum = d.md5_checksum`), 1)
	assert.Equal(t, r.count("pilot_run_ledger where counters ->> 'stage_c_transferred' = '1'"), 1)
}

func TestStaleEvidenceDoesNotSpread(t *testing.T) {
	t.Parallel()
	r := setup(t, 6)
	_, err := r.stream()
	assert.NilError(t, err)
	r.twin(6, 1)
	r.cfg.Versions = map[string]string{"x": "2"}
	r.broken = map[int64]string{1: dispatch.FetchFailed} // the donor stays as it was
	total, err := r.again()
	assert.NilError(t, err)
	assert.Equal(t, total.Transferred, 0)
	r.broken = nil
	r.exec("update image_evidence set extractor_versions = '{\"x\": \"1\"}' where card_id = 1")
	total, err = r.again()
	assert.NilError(t, err)
	assert.Equal(t, total.Transferred, 1, "the twin's is current now, and renews the donor's")
	assert.Equal(t, r.count("image_evidence where card_id = 1 and transferred_from_card_id = 6"), 1)
}

func TestADonorThatCannotBeTheSameIsLogged(t *testing.T) {
	t.Parallel()
	r := setup(t, 6)
	r.twin(6, 1)
	r.exec("update card set sha256_checksum = encode(sha256(id::text::bytea), 'hex')")
	total, err := r.stream()
	assert.NilError(t, err)
	assert.Equal(t, total.Transferred, 0)
	assert.Equal(t, total.Extracted, 6)
	assert.Equal(t, r.count(`card_scan_log where card_id = 6 and anonymous_id = 'evidence-transfer-v1'
		and skip_reason = 'transfer-sha256-mismatch' and run_id = 'run'`), 1)
}

// TestEveryMeasurementIsTransferred compares all columns but those that are a card's own.
func TestEveryMeasurementIsTransferred(t *testing.T) {
	t.Parallel()
	r := setup(t, 2)
	r.twin(2, 1)
	r.exec(schema.Persist, 1, map[string]any{
		"versions": r.cfg.Versions, "skips": []string{"s"}, "fetch_ok": true, "fetch_error_class": "c", "fetch_latency_ms": 1,
		"fetch_image_format": "png", "width": 2, "height": 3, "aspect_ratio": 0.5, "bleed_class": "none", "bleed_diff_mm": 1.5,
		"layout_class": "black", "crops": map[string]int{"a": 1}, "artbox_phash": 4, "truncated": false, "blur_variance": 5,
		"entropy": 6, "colour_mean": []float64{1}, "colour_stddev": []float64{2}, "set_code": "abc", "collector_number": "7",
		"symbol_phash": 8, "collector_text": "t", "artist_text": "u", "artist_name": "v", "artist_anchor": true,
		"legal_text": "w", "copyright_year": 1999, "proxy_marker": false,
	}, int64(100), "run", dispatch.Agent, []string{})
	given, err := session.Column[int64](t.Context(), r.worker, schema.Transfer, []int64{2}, r.cfg.Versions, "run", r.cfg.Before)
	assert.NilError(t, err)
	assert.DeepEqual(t, given, []int64{2})
	const own = "'id', 'card_id', 'created_at', 'updated_at', 'transferred', 'transferred_from_card_id', 'sha256_checksum'"
	assert.Equal(t, r.count(`jsonb_each((select to_jsonb(e) from image_evidence e where card_id = 2)) t(k, v)
		where k not in (`+own+`) and v = 'null'`), 0)
	assert.Equal(t, r.count(`jsonb_each((select to_jsonb(e) from image_evidence e where card_id = 1)) a(k, v)
		join jsonb_each((select to_jsonb(e) from image_evidence e where card_id = 2)) b(k, v) using (k)
		where a.v <> b.v and k not in (`+own+`)`), 0)
}

// claims lets n workers take card 1 in hand, each on a session of its own.
func (r *rig) claims(n int) (sessions []*session.Session) {
	r.t.Helper()
	for i := range n {
		s, err := session.Open(r.t.Context(), r.cfg.Sessions, fmt.Sprintf("worker-%d", i+1))
		assert.NilError(r.t, err)
		_, err = s.Exec(r.t.Context(), schema.Claim, 1, "elsewhere", dispatch.WorkerName(i+1, 1000+i))
		assert.NilError(r.t, err)
		sessions = append(sessions, s)
	}
	return sessions
}

func TestACardThatManyHaveInHandIsNoPoison(t *testing.T) {
	t.Parallel()
	r := setup(t, 2)
	for _, s := range r.claims(3) {
		defer func() { assert.NilError(t, s.Close(context.Background())) }()
	}
	total, err := r.stream()
	assert.NilError(t, err)
	assert.Equal(t, total.Parked, 0)
	r.assertConverged(2)
}

func TestDispatchersThatEndTogetherCountAsOneDeath(t *testing.T) {
	t.Parallel()
	r := setup(t, 2)
	for _, s := range r.claims(3) {
		assert.NilError(t, s.Close(t.Context()))
	}
	r.broken = map[int64]string{1: dispatch.FetchFailed} // so that nothing forgives it
	total, err := r.stream()
	assert.NilError(t, err)
	assert.Equal(t, total.Parked, 0)
	assert.Equal(t, r.count("stage_c_claim"), 0)
	assert.Equal(t, r.count("stage_c_attempt where card_id = 1 and attempts = 1"), 1)
	for range 2 {
		for _, s := range r.claims(3) {
			assert.NilError(t, s.Close(t.Context()))
		}
		total, err = r.again()
		assert.NilError(t, err)
	}
	assert.Equal(t, total.Parked, 1, "at the third such end it is given up")
}
