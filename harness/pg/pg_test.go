package pg_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)": "15.18",
		"postgres (PostgreSQL) 9.6.24":                         "9.6",
		"postgres (PostgreSQL) 18beta1":                        "18.0",
		"postgres (PostgreSQL) 17devel\n":                      "17.0",
		"postgres (EnterpriseDB) 15.1":                         "",
		"":                                                     "",
	} {
		v, err := pg.ParseVersion(text)
		if want == "" {
			assert.ErrorContains(t, err, "no release number", text)
			continue
		}
		assert.NilError(t, err)
		assert.Equal(t, v.String(), want)
	}
	assert.Equal(t, pg.VersionOfNumber(150018).String(), "15.18")
}

func TestOldVersionsSayWhatToInstall(t *testing.T) {
	t.Parallel()
	assert.NilError(t, pg.Version{Major: 13}.Supported())
	err := pg.Version{Major: 12, Minor: 3}.Supported()
	assert.Error(t, err, "PostgreSQL 12.3 is too old: install PostgreSQL 13 or later")
}

func TestPasswordIsMaskedEverywhere(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	address := pg.Address{Host: "::1", Port: 5, User: "u@x", Password: secret, Database: "d"}
	text, err := json.Marshal(address)
	assert.NilError(t, err)
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "address", address, "password", address.Password)
	for _, shown := range []string{
		string(text), logged.String(), fmt.Sprintf("%v %+v %#v %s %q %x %d", address, address, address, address.Password, address.Password, address.Password, address.Password),
	} {
		assert.Assert(t, !strings.Contains(shown, secret), shown)
		assert.Assert(t, !strings.Contains(shown, fmt.Sprintf("%x", secret)), shown)
		assert.Assert(t, strings.Contains(shown, "xxxxx"), shown)
	}
	assert.Equal(t, fmt.Sprint(pg.Password("")), "")
	assert.Equal(t, address.URL("a b"), "postgres://u%40x:s3cr3t@[::1]:5/a%20b?sslmode=disable")
}

func TestSocketURLFallsBackToTCP(t *testing.T) {
	t.Parallel()
	address := pg.Address{Host: "127.0.0.1", Port: 5, User: "u"}
	assert.Equal(t, address.SocketURL("d"), address.URL("d"))
	address.SocketDir = "/tmp/s"
	assert.Equal(t, address.SocketURL("d"), "postgres://u:@/d?host=%2Ftmp%2Fs&port=5&sslmode=disable")
}

func TestReleasesGoLastFirstAndOnce(t *testing.T) {
	t.Parallel()
	var releases pg.Releases
	var order []int
	broken := errors.New("broken")
	for i := range 3 {
		releases.OnStop(func(context.Context) error {
			order = append(order, i)
			if i == 1 {
				return broken
			}
			return nil
		})
	}
	assert.ErrorIs(t, releases.Release(t.Context()), broken)
	assert.NilError(t, releases.Release(t.Context()))
	assert.DeepEqual(t, order, []int{2, 1, 0})
}

func TestErrorsCarryDataAndMend(t *testing.T) {
	t.Parallel()
	lacking := fmt.Errorf("outer: %w", &pg.NotOursError{Power: pg.ToCrash, Reason: "because"})
	assert.ErrorIs(t, lacking, pg.ErrNotOurs)
	assert.Error(t, lacking, "outer: cannot crash a backend: because")
	start := &pg.StartError{Err: context.DeadlineExceeded, Log: []string{"one", "two"}}
	assert.ErrorIs(t, start, context.DeadlineExceeded)
	assert.ErrorContains(t, start, "its log ends with:\n  one\n  two")
	assert.ErrorContains(t, &pg.MissingError{Looked: []string{"here"}, Install: "install it"}, "install it (looked in: here)")
}
