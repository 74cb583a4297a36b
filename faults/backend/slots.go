package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"deadwire/faults"
	"deadwire/harness/event"
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
	heal := faults.HealOnce(func(ctx context.Context) error { return give(ctx, taken) })
	for len(taken) < slotsMax {
		conn, err := t.Admin(ctx)
		var refusal *pgconn.PgError
		switch {
		case errors.As(err, &refusal) && refusal.Code == tooMany:
			free := min(f.Free, len(taken))
			err := give(ctx, taken[:free])
			taken = taken[free:]
			t.Bit(rec, f, event.SessionID{}, 0, fmt.Sprintf("took %d slots, until a session of our own was refused", len(taken)))
			return heal, err
		case err != nil:
			return heal, err
		}
		taken = append(taken, conn)
	}
	return heal, fmt.Errorf("the server has more than %d slots", slotsMax)
}

// give closes sessions. Close waits for the server's FIN, which comes when the
// server process has ended and its slot is free.
func give(ctx context.Context, taken []*pgx.Conn) error {
	for _, conn := range taken {
		if err := conn.Close(ctx); ctx.Err() != nil {
			return err // else the server ended it meanwhile, which is just as free
		}
	}
	return nil
}
