package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/pg"
	"deadwire/harness/wait"
)

// tooMany is the SQLSTATE of a refusal for want of a slot.
const tooMany = "53300"

// slotsMax bounds how many sessions are opened to take all slots.
const slotsMax = 2000

// Slots takes the connection slots of the case's own server, those for
// superusers too, so that new sessions are refused with 53300. Healing gives
// them back.
type Slots struct {
	Free int `json:"free,omitempty" doc:"how many slots are left; default none"`
}

// Name implements faults.Fault.
func (Slots) Name() string { return "backend.slots" }

// Available implements faults.Fault.
func (Slots) Available(t faults.Target) error {
	if err := reachable(t); err != nil {
		return err
	}
	return ownServer(t)
}

// Expects implements faults.Expecter.
func (Slots) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "capacity.exhausted"}}
}

// Inject implements faults.Fault. It bites when the server refuses a further
// session, our own.
func (f Slots) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	var taken []*pgx.Conn
	heal := faults.HealOnce(func(ctx context.Context) error { return giveAll(ctx, t, taken) })
	for len(taken) < slotsMax {
		conn, err := t.Admin(ctx)
		var refusal *pgconn.PgError
		switch {
		case errors.As(err, &refusal) && refusal.Code == tooMany:
			free := min(f.Free, len(taken))
			given := taken[:free]
			taken = taken[free:]
			err := give(ctx, given, taken)
			t.Bit(rec, f, event.SessionID{}, 0, fmt.Sprintf("took %d slots, until a session of our own was refused", len(taken)))
			return heal, err
		case err != nil:
			return heal, err
		}
		taken = append(taken, conn)
	}
	return heal, fmt.Errorf("the server has more than %d slots", slotsMax)
}

// give closes sessions and waits until the server has ended them, as one of the
// sessions that are kept sees it: closing one only asks for that.
func give(ctx context.Context, given, kept []*pgx.Conn) error {
	pids := closeAll(ctx, given)
	if len(pids) == 0 || len(kept) == 0 {
		return nil
	}
	return wait.For(ctx, "connection slots to be free", func(ctx context.Context) wait.Answer {
		return ended(ctx, kept[0], pids)
	})
}

// giveAll closes all sessions and waits until the server has ended them. At first
// it may have no slot even for who asks.
func giveAll(ctx context.Context, t faults.Target, taken []*pgx.Conn) error {
	pids := closeAll(ctx, taken)
	return wait.For(ctx, "connection slots to be free", func(ctx context.Context) wait.Answer {
		admin, err := t.Admin(ctx)
		switch {
		case err != nil && pg.NotReady(err):
			return wait.NotYet("%v", err)
		case err != nil:
			return wait.Never(err)
		}
		defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
		return ended(ctx, admin, pids)
	})
}

// closeAll closes sessions and returns the pids of their server processes.
func closeAll(ctx context.Context, sessions []*pgx.Conn) (pids []int32) {
	for _, conn := range sessions {
		pids = append(pids, int32(conn.PgConn().PID()))
		_ = conn.Close(ctx) // one that the server has ended meanwhile is just as well
	}
	return pids
}

func ended(ctx context.Context, asking *pgx.Conn, pids []int32) wait.Answer {
	var left int
	err := asking.QueryRow(ctx, "select count(*) from pg_stat_activity where pid = any($1)", pids).Scan(&left)
	switch {
	case err != nil:
		return wait.Never(err)
	case left > 0:
		return wait.NotYet("%d sessions are left", left)
	default:
		return wait.Done()
	}
}
