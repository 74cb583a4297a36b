package source

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
	"deadwire/harness/pg/docker"
	"deadwire/harness/pg/embedded"
	"deadwire/harness/pg/external"
	"deadwire/harness/pg/local"
)

func TestWordsNameAProvider(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"local": local.Name, "docker": docker.Name, "embedded": embedded.Name, "embedded:15": embedded.Name,
		"postgres://u@127.0.0.1/d": external.Name, "postgresql://u@127.0.0.1/d": external.Name, "/usr/lib/postgresql/15/bin": local.Name,
	} {
		p, err := named(spec, Options{})
		assert.NilError(t, err, spec)
		assert.Equal(t, p.Name(), want, spec)
	}
}

func TestOtherWordsAreRefusedWithoutTheirPasswords(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"", "Local", "embedded:x", "docker:15", "postgress://u:hidden@h/d"} {
		_, err := Provider(t.Context(), spec, Options{})
		var syntax *SyntaxError
		assert.Assert(t, errors.As(err, &syntax), "%q gave %v", spec, err)
		assert.ErrorContains(t, err, "postgres:// URL")
		assert.Assert(t, !strings.Contains(err.Error(), "hidden"), err.Error())
	}
}

func TestLocalBinariesWinInAuto(t *testing.T) {
	t.Parallel()
	chosen, err := Provider(t.Context(), Auto, Options{})
	assert.NilError(t, err)
	assert.Equal(t, chosen.Name(), local.Name)
	assert.Equal(t, chosen.Why, "postgres: local (server binaries are installed)")
}

// kind is a provider that starts nothing.
type kind struct {
	name               string
	available, prepare error
}

func (k kind) Name() string                                        { return k.name }
func (k kind) Available(context.Context) error                     { return k.available }
func (k kind) Prepare(context.Context) error                       { return k.prepare }
func (k kind) Start(context.Context, pg.Config) (pg.Server, error) { return nil, errors.ErrUnsupported }

func TestAutoTakesTheFirstThatIsReadyAndSaysWhyInOneLine(t *testing.T) {
	t.Parallel()
	chosen, err := first(t.Context(), []pg.Provider{
		kind{name: "one", available: errors.New("not\ninstalled")}, kind{name: "two", prepare: errors.New("no network")}, kind{name: "three"}, kind{name: "four"},
	})
	assert.NilError(t, err)
	assert.Equal(t, chosen.Why, "postgres: three (not one: not installed; not two: no network)")
}

func TestAutoWithoutAnyNamesAllMends(t *testing.T) {
	t.Parallel()
	mend := errors.New("apt-get install postgresql")
	_, err := first(t.Context(), []pg.Provider{kind{name: "one", available: mend}, kind{name: "two", prepare: errors.New("no network")}})
	var none *NoneError
	assert.Assert(t, errors.As(err, &none), "got %v", err)
	assert.ErrorIs(t, err, mend)
	assert.Equal(t, err.Error(), "no PostgreSQL can be had here; mend one of:\n  one       apt-get install postgresql\n  two       no network")
}

func TestAutoEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := first(ctx, []pg.Provider{kind{name: "one", available: context.Canceled}, kind{name: "two"}})
	assert.ErrorIs(t, err, context.Canceled)
}
