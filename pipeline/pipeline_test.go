package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/cardgen"
	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/evidence"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

// TestEveryMeasurementReachesAColumn holds evidence's JSON form against the
// function that stores it, so that a new measurement cannot be dropped in silence.
func TestEveryMeasurementReachesAColumn(t *testing.T) {
	t.Parallel()
	s, err := session.Open(t.Context(), session.Config{URL: schematest.Database(t), Timeout: time.Minute}, "test")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close(context.Background())) })
	stores, err := session.Value[string](t.Context(), s, "select prosrc from pg_proc where proname = 'persist_card'")
	assert.NilError(t, err)
	elsewhere := map[string]bool{"content_phash": true} // the card's own hash is the row's key
	for field := range reflect.TypeFor[evidence.Evidence]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		used := regexp.MustCompile(`\br\.` + name + `\b`).MatchString(stores)
		assert.Assert(t, used || elsewhere[name], "%s is measured and not stored", name)
	}
}

func TestMintedRunIdFitsTheLedger(t *testing.T) {
	t.Parallel()
	cfg := Config{Batch: 10000}.withDefaults(time.Now())
	assert.NilError(t, cfg.validate())
	assert.Assert(t, strings.HasPrefix(cfg.Run, "stage-e-fullcat-b10000-"))
}

func TestConfigIsRefusedByTheNameOfItsSetting(t *testing.T) {
	t.Parallel()
	for setting, cfg := range map[string]Config{
		"batch":         {Batch: -1},
		"workers":       {Workers: 1001},
		"fetchers":      {Fetchers: -1},
		"recycle-after": {RecycleAfter: -1},
		"run-id":        {Run: strings.Repeat("x", 41)},
		"scope":         {Scope: strings.Repeat("x", 65)},
	} {
		cfg.Source = t.TempDir()
		_, err := New(cfg)
		refused, ok := errors.AsType[*ConfigError](err)
		assert.Assert(t, ok, "%v", err)
		assert.Equal(t, refused.Setting, setting)
	}
}

// rig is a database with an imported catalogue and a worker's handler.
type rig struct {
	t        *testing.T
	database session.Config
	folder   string
	handler  *computer
}

func setup(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, database: session.Config{URL: schematest.Database(t), Timeout: time.Minute}, folder: t.TempDir()}
	_, err := cardgen.Write(t.Context(), r.folder, cardgen.Spec{Cards: 4, Seed: 1})
	assert.NilError(t, err)
	_, err = Import(t.Context(), r.database, r.folder)
	assert.NilError(t, err)
	s, err := session.Open(t.Context(), r.database, "worker-1")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close(context.Background())) })
	r.handler = &computer{run: "run", session: s}
	return r
}

// card is a job on the first card, and its image.
func (r *rig) card() (jobArgs, []byte) {
	r.t.Helper()
	return r.cardOf("")
}

// cardOf is a job on a card, by its identifier.
func (r *rig) cardOf(identifier string) (jobArgs, []byte) {
	r.t.Helper()
	type row struct {
		ID, PHash int64
		MD5, File string
	}
	rows, err := session.Tuples[row](r.t.Context(), r.handler.session,
		"select id, content_phash, trim(md5_checksum), file from card where identifier = $1 or $1 = '' order by id limit 1", identifier)
	assert.NilError(r.t, err)
	image, err := os.ReadFile(filepath.Join(r.folder, rows[0].File))
	assert.NilError(r.t, err)
	return jobArgs{Card: rows[0].ID, PHash: rows[0].PHash, MD5: rows[0].MD5}, image
}

func (r *rig) count(table string) int64 {
	r.t.Helper()
	n, err := session.Value[int64](r.t.Context(), r.handler.session, "select count(*) from "+table)
	assert.NilError(r.t, err)
	return n
}

func TestWorkerStoresACardOnceHoweverOften(t *testing.T) {
	t.Parallel()
	r := setup(t)
	args, image := r.card()
	for range 2 {
		reply, err := r.handler.card(t.Context(), args, image)
		assert.NilError(t, err)
		assert.Equal(t, reply, jobReply{})
	}
	assert.Equal(t, r.count("image_evidence where collector_number <> '' and run_id = 'run'"), int64(1))
}

func TestWorkerTellsWrongBytesFromADamagedImage(t *testing.T) {
	t.Parallel()
	r := setup(t)
	args, image := r.card()
	reply, err := r.handler.card(t.Context(), args, image[:len(image)/2])
	assert.NilError(t, err)
	assert.Equal(t, reply.Skip, dispatch.WrongImage)
	args.MD5 = ""
	reply, err = r.handler.card(t.Context(), args, image[:len(image)/2])
	assert.NilError(t, err)
	assert.Equal(t, reply.Skip, dispatch.WrongImage, "nobody says that these bytes are the image")
	assert.Equal(t, r.count("image_evidence"), int64(0))
	args.MD5 = "8d777f385d3dfec8815d20f7496026dc" // of "data"
	reply, err = r.handler.card(t.Context(), args, []byte("data"))
	assert.NilError(t, err)
	assert.Equal(t, reply.Skip, dispatch.DamagedImage)
	assert.Equal(t, r.count("image_evidence where not fetch_ok"), int64(1))
	assert.Assert(t, r.count("card_scan_log where skip_reason = 'collector_code:undecodable'") == 1)
}

func TestEvidenceOfAnImageThatChangedMeanwhileIsRefusedWhole(t *testing.T) {
	t.Parallel()
	r := setup(t)
	args, image := r.card()
	args.PHash++
	_, err := r.handler.card(t.Context(), args, image)
	assert.ErrorContains(t, err, "persist: statement changed 0 rows instead of 1")
	assert.Equal(t, r.count("card_scan_log"), int64(0))
	assert.Assert(t, !r.handler.session.Lost())
}

func TestImportIsValueDiffing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	again, err := Import(t.Context(), r.database, r.folder)
	assert.NilError(t, err)
	assert.Equal(t, again.CardsChanged+again.PrintingsChanged, int64(0))
	_, err = r.handler.session.Exec(t.Context(), "update card set name = 'Other' where id = 1")
	assert.NilError(t, err)
	again, err = Import(t.Context(), r.database, r.folder)
	assert.NilError(t, err)
	assert.Equal(t, again.CardsChanged, int64(1))
}

func TestImportOfABadCatalogueStoresNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	assert.NilError(t, os.WriteFile(filepath.Join(r.folder, "printings.json"), []byte(`{"schema": 3}`), 0o600))
	_, err := Import(t.Context(), session.Config{URL: schematest.Database(t), Timeout: time.Minute}, r.folder)
	assert.ErrorContains(t, err, "printings.json")
}
