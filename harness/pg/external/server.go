package external

import (
	"context"
	"fmt"
	"net/url"

	"deadwire/harness/pg"
)

// server is someone else's server.
type server struct {
	pg.Releases
	base    *url.URL
	address pg.Address
	version pg.Version
}

func (s *server) Provider() string { return Name }

func (s *server) Version() pg.Version { return s.version }

func (s *server) Address() pg.Address { return s.address }

// URL returns the address that was given, with its parameters, for another database.
func (s *server) URL(database string) string {
	u := *s.base
	query := u.Query()
	for _, name := range []string{"dbname", "database"} { // pgx and libpq let them win over the path
		query.Del(name)
	}
	u.RawQuery, u.RawPath, u.Path = query.Encode(), "", "/"+database
	return u.String()
}

func (s *server) PID() int { return 0 }

func (s *server) Can(power pg.Power) error { return lacking(power) }

// lacking returns why a power over someone else's server is lacking.
func lacking(power pg.Power) error {
	return &pg.NotOursError{Power: power, Reason: "the server was given by its address, and its process is not ours"}
}

func (s *server) Restart(context.Context, pg.Mode) error { return lacking(pg.ToRestart) }

func (s *server) CrashBackend(context.Context, int) error { return lacking(pg.ToCrash) }

// Stop drops what we made; the server itself is left alone.
func (s *server) Stop(ctx context.Context) error {
	if err := s.Release(ctx); err != nil {
		return fmt.Errorf("leave postgres: %w", err)
	}
	return nil
}
