package schema_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/schema/schematest"
)

// onePair is a catalogue of two cards and two printings, and three ledger rows.
const onePair = `
insert into source (key, name, identifier, source_type) values ('s', 's', 's', 'local_file');
insert into printing (identifier, canonical_id, name, normal_name, set_code, collector_number)
  select gen_random_uuid(), gen_random_uuid(), 'P', 'p', 'ABC', i from generate_series(1, 2) i;
insert into card (identifier, source_id, name, file, content_phash, md5_checksum)
  select 'c' || i, 1, 'P', i || '.png', i, md5('same') from generate_series(1, 2) i;
insert into pilot_run_ledger (run_id, data_run_id, command, status, started_at, finished_at, counters)
  select 'r-b' || i, 'r', 'stage_e_streaming_dispatch', 'completed', now() - interval '1 hour', now() - interval '59 minutes',
    '{"elapsed_s": 1, "backend_pid": 7, "backend_pid_after": 7, "slots": 3, "lockout": false}' from generate_series(1, 3) i`

// breaches are the smallest wrongs that each invariant must see. Those about sessions
// and locks of others have none here.
func breaches() map[string]string {
	return map[string]string{
		"evidence-hashed": `insert into image_evidence (card_id, content_hash, extractor_versions, run_id) values (1, 1, '{}', 'r');
			update card set content_phash = null where id = 1`,
		"machine-never-resolves": `update card set printing_tag_status = 'resolved'`,
		"group-agrees":           `update card set printing_tag_status = 'no_match' where id = 2`,
		"writes-attributed":      `insert into card_tag_vote (card_id, tag, anonymous_id, source) values (1, 'modern-frame', 'x-v1', 'ocr')`,
		"one-version-per-family": `insert into card_printing_tag (card_id, printing_id, anonymous_id, source, run_id)
			values (1, 1, 'x-v1', 'ocr', 'r'), (1, 2, 'x-v2', 'ocr', 'r')`,
		"propagation-replaces-nothing": `insert into card_printing_tag (card_id, printing_id, anonymous_id, source, run_id, propagated_from)
			values (1, 1, 'x-v1', 'ocr', 'r', null), (1, 2, 'x-v1', 'ocr', 'r', 2)`,
		"votes-on-evidence": `insert into card_printing_tag (card_id, printing_id, anonymous_id, source, run_id) values (1, 1, 'x-v1', 'ocr', 'r')`,
		"ids-bounded":       `update pilot_run_ledger set data_run_id = 'other' where run_id = 'r-b1'`,
		"one-session-per-batch": `update pilot_run_ledger set counters = counters || '{"backend_pid_after": 8}'
			where run_id = 'r-b1'`,
		"slots-bounded": `update pilot_run_ledger set counters = counters || '{"slots": 2}'`,
		"cursor-within-catalogue": `insert into stage_e_sweep_cursor (name, position) values ('stage_c', 3)
			on conflict (name) do update set position = 3`,
		"mark-within-catalogue": `insert into stage_e_full_catalog_cursor (scope, position) values ('full-catalog', 3)`,
		"failed-fetch-without-evidence": `insert into image_evidence (card_id, content_hash, extractor_versions, run_id) values (1, 1, '{}', 'r');
			insert into card_scan_log (card_id, anonymous_id, run_id, skip_reason, scanned_at)
			values (1, 'stage-c-v1', 'r', 'fetch-failed', now() + interval '1 minute')`,
		"trips-gate":          `insert into envelope_trip (trip_id, bar, tripped_at) values ('t', 'rss', now() - interval '2 hours')`,
		"lockout-trips-once":  `update pilot_run_ledger set counters = counters || '{"lockout": true}' where run_id = 'r-b1'`,
		"votes-archived":      `insert into archived_card_printing_tag (original_id, card_id, is_no_match, anonymous_id, source, evidence_types_used, superseded_by_run_id) values (1, 1, true, 'x-v1', 'ocr', '[]', '')`,
		"transfer-named":      `insert into image_evidence (card_id, content_hash, extractor_versions, run_id, transferred, transferred_from_card_id, md5_checksum) values (1, 1, '{}', 'r', true, 2, md5('other'))`,
		"no-idle-transaction": "", "no-session-left": "", "no-lock-left": "", "no-orphaned-slot": "",
		// Constraints stand before these: nobody can break them by a statement.
		"evidence-unique": "", "votes-unique": "", "completed-is-full": "", "failed-has-reason": "", "trips-closed-with-note": "",
	}
}

func TestEveryInvariantSeesItsBreachAndNoOther(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.Database(t))
	_, err := conn.Exec(t.Context(), onePair)
	assert.NilError(t, err)
	known := breaches()
	for _, invariant := range schema.Invariants() {
		wrong, listed := known[invariant.Name]
		assert.Assert(t, listed, "%s has no breach", invariant.Name)
		tx, err := conn.Begin(t.Context())
		assert.NilError(t, err)
		found := func() int {
			rows, err := tx.Query(t.Context(), invariant.SQL)
			assert.NilError(t, err, invariant.Name)
			defer rows.Close()
			n := 0
			for rows.Next() {
				n++
			}
			assert.NilError(t, rows.Err(), invariant.Name)
			return n
		}
		if !invariant.AtRest {
			assert.Equal(t, found(), 0, "%s before", invariant.Name)
		}
		if wrong != "" {
			_, err = tx.Exec(t.Context(), wrong)
			assert.NilError(t, err, invariant.Name)
			assert.Assert(t, found() > 0, invariant.Name)
		}
		assert.NilError(t, tx.Rollback(t.Context()))
	}
}
