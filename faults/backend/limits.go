package backend

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/pg"
	"deadwire/harness/tap"
)

// limit is one of the server's time limits.
type limit struct {
	setting  string
	since    int    // first major version that has it
	sqlstate string // of what the client is told
	ends     bool   // it ends the session, not only the statement
}

// limits are the time limits by their name in scenarios; PostgreSQL manual,
// "Client Connection Defaults".
func limits() map[string]limit {
	return map[string]limit{
		"statement":           {setting: "statement_timeout", sqlstate: "57014"},
		"lock":                {setting: "lock_timeout", sqlstate: "55P03"},
		"idle-in-transaction": {setting: "idle_in_transaction_session_timeout", sqlstate: "25P03", ends: true},
		"idle-session":        {setting: "idle_session_timeout", since: 14, sqlstate: "57P05", ends: true},
		"transaction":         {setting: "transaction_timeout", since: 17, sqlstate: "25P04", ends: true},
	}
}

// Timeout gives the case's own database a time limit. Sessions that are opened
// afterwards have it. Healing takes the setting back.
type Timeout struct {
	Of string `json:"of" enum:"statement,lock,idle-in-transaction,idle-session,transaction" doc:"what is limited"`
	MS int    `json:"ms" doc:"the limit in milliseconds"`
}

// Name implements faults.Fault.
func (Timeout) Name() string { return "backend.timeout" }

// Arm implements faults.Armer: only new sessions get the setting.
func (Timeout) Arm() bool { return true }

// Available implements faults.Fault.
func (f Timeout) Available(t faults.Target) error {
	if err := configurable(t); err != nil {
		return err
	}
	if l := limits()[f.Of]; t.Server.Version().Major < l.since {
		return fmt.Errorf("needs PostgreSQL %d, which has %s; this is %s", l.since, l.setting, t.Server.Version())
	}
	return nil
}

// Expects implements faults.Expecter.
func (f Timeout) Expects() []faults.Expectation {
	if limits()[f.Of].ends {
		return []faults.Expectation{{Rule: "backend.session-timeout"}}
	}
	return nil
}

// Inject implements faults.Fault.
func (f Timeout) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	l, known := limits()[f.Of]
	if !known || f.MS < 1 {
		return nil, fmt.Errorf("of: %q, ms: %d: want a known limit and 1 ms or more", f.Of, f.MS)
	}
	return setForDatabase(ctx, t, l.setting, fmt.Sprintf("%dms", f.MS), biteOnError(t, rec, f, l.sqlstate))
}

// ReadOnly makes transactions of the case's own database read-only, as a
// standby's are: writes fail with 25006. Sessions that are opened afterwards
// have it. Healing takes the setting back.
type ReadOnly struct{}

// Name implements faults.Fault.
func (ReadOnly) Name() string { return "backend.read-only" }

// Arm implements faults.Armer: only new sessions get the setting.
func (ReadOnly) Arm() bool { return true }

// Available implements faults.Fault.
func (ReadOnly) Available(t faults.Target) error { return configurable(t) }

// Inject implements faults.Fault.
func (f ReadOnly) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	return setForDatabase(ctx, t, "default_transaction_read_only", "on", biteOnError(t, rec, f, "25006"))
}

// configurable returns nil, or why the database's settings are not ours to change.
func configurable(t faults.Target) error {
	if err := reachable(t); err != nil {
		return err
	}
	return t.Server.Can(pg.ToConfigure)
}

// setForDatabase changes a setting of the case's own database until the heal,
// which also ends the look-out for bites.
func setForDatabase(ctx context.Context, t faults.Target, name, value string, unwatch func()) (faults.Heal, error) {
	database := pgx.Identifier{t.Database}.Sanitize()
	heal := faults.HealOnce(func(ctx context.Context) error {
		unwatch()
		return fromOutside(ctx, t, "alter database "+database+" reset "+name)
	})
	return heal, fromOutside(ctx, t, "alter database "+database+" set "+name+" = '"+value+"'")
}

// fromOutside carries out one statement in the maintenance database, which has
// none of the limits that the case's own database may have by now.
func fromOutside(ctx context.Context, t faults.Target, statement string) error {
	admin, err := pg.Admin(ctx, t.Server)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	_, err = admin.Exec(ctx, statement)
	return err
}

// biteOnError records the bite once for each session that the server tells an
// error with that SQLSTATE, until the returned function is called.
func biteOnError(t faults.Target, rec event.Recorder, f faults.Fault, sqlstate string) (stop func()) {
	var mu sync.Mutex
	seen := map[event.SessionID]bool{}
	return t.Front.AddRule(tap.Rule{
		Match: func(s *tap.Session, m event.Message) bool {
			if m.From != event.Backend || m.SQLState != sqlstate {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			if !seen[s.ID()] {
				seen[s.ID()] = true
				t.Bit(rec, f, s.ID(), 0, "the server said "+sqlstate)
			}
			return false // it only looks
		},
		Do: tap.Drop{},
	})
}
