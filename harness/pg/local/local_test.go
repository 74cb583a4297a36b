package local_test

import (
	"os"
	"testing"

	"deadwire/harness/pg"
	"deadwire/harness/pg/local"
	"deadwire/harness/pg/pgtest"
)

func TestMain(m *testing.M) {
	os.Exit(pgtest.Main(m, pgtest.Makers{local.Name: makeLocal}))
}

// binariesVariable names a folder with the binaries of another version, for the
// suite only; .ci/run goes through the supported majors by it.
const binariesVariable = "DEADWIRE_TEST_POSTGRES"

func makeLocal(string) pg.Provider {
	return local.New(local.Options{BinDir: os.Getenv(binariesVariable)})
}

func TestProvider(t *testing.T) {
	t.Parallel()
	pgtest.Exercise(t, func(*testing.T) pg.Provider { return makeLocal("") })
}
