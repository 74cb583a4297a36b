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

func makeLocal(string) pg.Provider { return local.New(local.Options{}) }

func TestProvider(t *testing.T) {
	t.Parallel()
	pgtest.Exercise(t, func(*testing.T) pg.Provider { return makeLocal("") })
}
