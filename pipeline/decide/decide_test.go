package decide_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/consensus"
	"deadwire/pipeline/decide"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

// desk is a database with printings and cards that have evidence.
type desk struct {
	t   *testing.T
	cfg session.Config
	s   *session.Session
}

func setup(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, cfg: session.Config{URL: schematest.Database(t), Timeout: time.Minute}}
	d.s = d.open()
	d.exec(`insert into source (key, name, identifier, source_type) values ('s', 's', 's', 'local_file')`)
	return d
}

func (d *desk) open() *session.Session {
	d.t.Helper()
	s, err := session.Open(d.t.Context(), d.cfg, "test")
	assert.NilError(d.t, err)
	d.t.Cleanup(func() { assert.NilError(d.t, s.Close(context.Background())) })
	return s
}

func (d *desk) exec(sql string, args ...any) {
	d.t.Helper()
	_, err := d.s.Exec(d.t.Context(), sql, args...)
	assert.NilError(d.t, err, sql)
}

func (d *desk) count(sql string, args ...any) int {
	d.t.Helper()
	n, err := session.Value[int64](d.t.Context(), d.s, "select count(*) from "+sql, args...)
	assert.NilError(d.t, err, sql)
	return int(n)
}

// printing adds one of the name, in a set, by an artist; its key is its place.
func (d *desk) printing(name, set string, number int, artist string) {
	d.t.Helper()
	d.exec(`insert into printing (identifier, canonical_id, name, normal_name, set_code, collector_number, artist, border_color, illustration_id)
		values (gen_random_uuid(), gen_random_uuid(), $1, lower($1), $2, $3::int::text, $4, 'black', gen_random_uuid())`, name, set, number, artist)
}

// card adds one with evidence; its key is its place.
func (d *desk) card(name, md5 string, art int, set, number, artist string) {
	d.t.Helper()
	d.exec(`with c as (
		insert into card (identifier, source_id, name, file, content_phash, md5_checksum)
		select 'c' || count(*) + 1, 1, $1::text, 'x', $3::int, md5($2::text) from card returning id, content_phash, md5_checksum)
	insert into image_evidence (card_id, content_hash, md5_checksum, extractor_versions, run_id, fetch_ok, artbox_phash,
		collector_set_code, collector_number, artist_name, layout_class)
	select id, content_phash, md5_checksum, '{"x": "1"}', 'run', true, $3::int, nullif($4::text, ''), nullif($5::text, ''), nullif($6::text, ''), 'black' from c`,
		name, md5, art, set, number, artist)
}

// decide runs Stage D over cards under a run id.
func (d *desk) decide(s *session.Session, run string, cards ...int64) (counts decide.Counts, err error) {
	p, err := decide.Read(d.t.Context(), s, run, cards, cards)
	if err != nil {
		return counts, err
	}
	groups, err := consensus.Groups(d.t.Context(), s, cards, false)
	if err != nil {
		return counts, err
	}
	err = s.InTx(d.t.Context(), func(tx *session.Tx) error {
		counts, err = p.Write(d.t.Context(), tx, decide.Batch{Run: run, Cards: cards, Groups: groups})
		return err
	})
	return counts, err
}

func (d *desk) decided(run string, cards ...int64) decide.Counts {
	d.t.Helper()
	counts, err := d.decide(d.s, run, cards...)
	assert.NilError(d.t, err)
	return counts
}

func (d *desk) cast(b decide.Ballot) decide.Verdict {
	d.t.Helper()
	v, err := decide.Cast(d.t.Context(), d.s, b)
	assert.NilError(d.t, err)
	return v
}

func (d *desk) assertPromises() {
	d.t.Helper()
	for _, invariant := range schema.Invariants() {
		if !invariant.AtRest {
			breaches, err := session.Column[string](d.t.Context(), d.s, invariant.SQL)
			assert.NilError(d.t, err)
			assert.Equal(d.t, len(breaches), 0, "%s: %v", invariant.Name, breaches)
		}
	}
}

// anvils: printings 1 and 2 of one name; cards 1 and 2 are twins, 3 shows the same art
// and says the same, 4 shows the same art and says that it is the reprint.
func anvils(t *testing.T) *desk {
	d := setup(t)
	d.printing("Anvil", "aaa", 7, "Ada Arnim")
	d.printing("Anvil", "bbb", 9, "Ada Arnim")
	d.exec("update printing set artist = 'Bela Brandt' where id = 2")
	d.card("Anvil", "same", 1, "aaa", "7", "Ada Arnim")
	d.card("anvil", "same", 1, "aaa", "7", "Ada Arnim")
	d.card("Anvil", "other", 1, "aaa", "7", "Ada Arnim")
	d.card("Anvil", "reprint", 1, "bbb", "9", "Bela Brandt")
	return d
}

func TestAgainWritesNoVotesUnderAnyRun(t *testing.T) {
	t.Parallel()
	d := anvils(t)
	first := d.decided("r1", 1, 2, 3, 4)
	assert.Equal(t, first.Matches, 8, "join-key and illustration, each card")
	assert.Equal(t, d.count("card_tag_vote"), 8, "border and frame, each card")
	assert.Equal(t, d.decided("r1", 1, 2, 3, 4).Written(), 0)
	later := d.decided("r2", 1, 2, 3, 4)
	assert.Equal(t, later.Written(), 0)
	assert.Equal(t, later.Already, 8)
	assert.Equal(t, d.count("card_tag_vote"), 8)
	assert.Equal(t, d.count("archived_card_printing_tag"), 0)
	d.assertPromises()
}

func TestConcurrentDispatchesWriteOneSet(t *testing.T) {
	t.Parallel()
	d := anvils(t)
	results := make(chan error)
	for i := range 6 {
		s := d.open()
		go func() {
			_, err := d.decide(s, fmt.Sprintf("r%d", i), 1, 2, 3, 4)
			results <- err
		}()
	}
	for range 6 {
		assert.NilError(t, <-results)
	}
	assert.Equal(t, d.count("card_printing_tag"), 8)
	d.assertPromises()
}

func TestAPersonAndAgreementSettleTheGroupAndNothingElse(t *testing.T) {
	t.Parallel()
	d := anvils(t)
	d.decided("r1", 1, 2, 3, 4)
	assert.Equal(t, d.count("card where printing_tag_status <> 'unresolved'"), 0, "machines alone settle nothing")
	v := d.cast(decide.Ballot{Card: "c2", Printing: "AAA/7", Person: "eve"})
	assert.DeepEqual(t, v, decide.Verdict{Card: "c2", Status: consensus.Resolved, Group: 3, Changed: 3})
	assert.Equal(t, d.count("card where printing_tag_status = 'resolved' and inferred_canonical_card_id = 1 and id <= 3"), 3)
	assert.Equal(t, d.count("card where printing_tag_status = 'resolved'"), 3, "the reprint is another card")
	d.assertPromises()
	v = d.cast(decide.Ballot{Card: "c2", Person: "eve"})
	assert.Equal(t, v.Status, consensus.Unresolved)
	assert.Equal(t, v.Changed, 3)
	assert.Equal(t, d.count("archived_card_printing_tag where anonymous_id = 'user:eve'"), 1)
	d.assertPromises()
}

func TestAgreementThatComesAfterThePersonSettlesToo(t *testing.T) {
	t.Parallel()
	d := anvils(t)
	assert.Equal(t, d.cast(decide.Ballot{Card: "c1", Printing: "aaa/7", Person: "eve"}).Status, consensus.Unresolved)
	counts := d.decided("r1", 3)
	assert.Equal(t, counts.Settled, 3, "by votes on another card of the group")
	d.assertPromises()
}

func TestADissentingPersonSilencesMachines(t *testing.T) {
	t.Parallel()
	d := anvils(t)
	d.decided("r1", 1, 2, 3)
	d.cast(decide.Ballot{Card: "c1", Printing: "aaa/7", Person: "eve"})
	v := d.cast(decide.Ballot{Card: "c3", Person: "sam", NoMatch: true})
	assert.Equal(t, v.Status, consensus.Unresolved)
	v = d.cast(decide.Ballot{Card: "c3", Person: "root", NoMatch: true, Admin: true})
	assert.Equal(t, v.Status, consensus.NoMatch)
	d.assertPromises()
}

func TestUnknownCardsAndPrintingsAreNamed(t *testing.T) {
	t.Parallel()
	d := anvils(t)
	_, err := decide.Cast(t.Context(), d.s, decide.Ballot{Card: "nope", NoMatch: true, Person: "eve"})
	assert.Error(t, err, `card "nope": unknown`)
	_, err = decide.Cast(t.Context(), d.s, decide.Ballot{Card: "c1", Printing: "zzz/1", Person: "eve"})
	assert.Error(t, err, `printing "zzz/1": unknown`)
	_, err = decide.Cast(t.Context(), d.s, decide.Ballot{Card: "c1", NoMatch: true})
	assert.ErrorContains(t, err, "want 1 to 35 bytes")
}

func TestVerdictsReachEqualImagesOnceAndNoOthers(t *testing.T) {
	t.Parallel()
	d := anvils(t)
	d.exec("update card set tags = array['custom-art'] where id = 3")
	d.decided("r1", 1)
	done, err := decide.Propagate(t.Context(), d.s, "r1")
	assert.NilError(t, err)
	assert.Equal(t, done.Votes, 2, "both agents' votes, to the twin")
	assert.Equal(t, d.count("card_printing_tag where card_id = 2 and propagated_from = 1 and printing_id = 1"), 2)
	assert.Equal(t, d.count("card_printing_tag where card_id in (3, 4)"), 0, "custom art, and another collector number")
	done, err = decide.Propagate(t.Context(), d.s, "r1")
	assert.NilError(t, err)
	assert.Equal(t, done.Votes, 0)
	violations, err := decide.Fidelity(t.Context(), d.s, "r1")
	assert.NilError(t, err)
	assert.Equal(t, len(violations), 0)
	d.assertPromises()
}

func TestAnAgentThatNamesTwoPrintingsTellsNobody(t *testing.T) {
	t.Parallel()
	d := anvils(t)
	d.exec("update card set md5_checksum = md5('same'), content_phash = 1 where id = 4")
	d.exec("update image_evidence set md5_checksum = md5('same') where card_id = 4")
	d.decided("r1", 1, 4)
	done, err := decide.Propagate(t.Context(), d.s, "r1")
	assert.NilError(t, err)
	assert.Equal(t, d.count("card_printing_tag where card_id = 2"), 0)
	assert.Assert(t, done.Conflicts > 0)
}

func TestASymbolSeenOnSettledCardsBreaksATie(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.printing("Anvil", "aaa", 7, "Ada Arnim")
	d.printing("Anvil", "bbb", 7, "Ada Arnim")
	for i, set := range []string{"aaa", "bbb", ""} {
		d.card("Anvil", set, 10+i, set, "7", "")
	}
	d.exec("update image_evidence set symbol_phash = case card_id when 2 then -1 else 3 end")
	assert.Equal(t, d.decided("r1", 3).Matches, 0)
	d.cast(decide.Ballot{Card: "c1", Printing: "aaa/7", Person: "root", Admin: true})
	d.cast(decide.Ballot{Card: "c2", Printing: "bbb/7", Person: "root", Admin: true})
	assert.Equal(t, d.decided("r2", 3).ByAgent["stage-d-join-key-v1"], 1)
	assert.Equal(t, d.count("card_printing_tag where card_id = 3 and printing_id = 1 and confidence = 0.75"), 1)
}

func TestABacksNameFindsItsFront(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.printing("dusk", "aaa", 7, "Ada Arnim")
	d.exec("insert into dfc_pair values ('Dusk', 'Dawn', 'dusk', 'dawn')")
	d.card("Dawn", "a", 1, "aaa", "7", "")
	d.card("Dusk // Dawn", "b", 2, "aaa", "7", "")
	assert.Equal(t, d.decided("r1", 1, 2).ByAgent["stage-d-join-key-v1"], 2)
}
