// Package sweep owns the cursors that walk the catalogue for work that was left
// behind, shared by all processes, and the proof that nothing is left. It does not
// know what makes a card eligible (its caller's Read does) and dispatches nothing.
// The cursor's row is authoritative: a walker owns exactly the range by which it
// moved the row.
package sweep

import (
	"context"
	"fmt"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// The cursors.
const (
	StageC = "stage_c" // cards without current evidence
	StageD = "stage_d" // cards with evidence that nobody decided on
)

const (
	// chunkMax bounds one look at the catalogue, in cards.
	chunkMax = 250
	// scanMax bounds all looks of one claim, in cards.
	scanMax = 1000
	// lossesMax bounds how often a claim is tried again after another walker was faster.
	lossesMax = 3
)

// Candidate is a card that lies on the cursor's way.
type Candidate struct {
	ID       int64
	Eligible bool
}

// Read returns the next cards after a position, at most limit, in the order of their
// ids, each judged. None at all means that the catalogue ends there.
type Read func(ctx context.Context, position int64, limit int) ([]Candidate, error)

// Found is what one claim got.
type Found struct {
	IDs []int64
	// Wrapped says that the end of the catalogue was reached, not that nothing is left.
	Wrapped bool
}

// Walker moves one cursor.
type Walker struct {
	Session *session.Session
	Cursor  string
	Read    Read
}

type place struct{ Position, Wraps int64 }

// Claim takes up to limit eligible cards: judged first, claimed then by moving the
// cursor behind the last card taken and no further, so that what is not taken stays
// for the next walker. Sets that walkers of one cursor get in one lap are disjoint.
func (w *Walker) Claim(ctx context.Context, limit int) (Found, error) {
	var found Found
	losses := 0
	for scanned := 0; scanned < scanMax && len(found.IDs) < limit; {
		at, err := w.place(ctx)
		if err != nil {
			return found, err
		}
		chunk, err := w.Read(ctx, at.Position, min(chunkMax, scanMax-scanned))
		if err != nil {
			return found, err
		}
		scanned += max(len(chunk), 1)
		ids, boundary := pick(chunk, limit-len(found.IDs))
		won, err := w.move(ctx, at, boundary)
		switch {
		case err != nil:
			return found, err
		case len(chunk) == 0:
			found.Wrapped = true // also when another walker wrapped it
			return found, nil
		case won:
			found.IDs = append(found.IDs, ids...)
		default:
			losses++
		}
		if losses > lossesMax {
			return found, nil
		}
	}
	return found, nil
}

// pick returns the eligible cards of a chunk and the claim's boundary: the last card
// taken, or the chunk's end when all of it was looked at. 0 for an empty chunk.
func pick(chunk []Candidate, limit int) (ids []int64, boundary int64) {
	for _, candidate := range chunk {
		boundary = candidate.ID
		if !candidate.Eligible {
			continue
		}
		ids = append(ids, candidate.ID)
		if len(ids) == limit {
			break
		}
	}
	return ids, boundary
}

func (w *Walker) place(ctx context.Context) (place, error) {
	places, err := session.Tuples[place](ctx, w.Session, schema.CursorRead, w.Cursor)
	if err != nil {
		return place{}, fmt.Errorf("cursor-read: %w", err)
	}
	if len(places) != 1 {
		return place{}, fmt.Errorf("cursor-read: %w", &session.RowCountError{Want: 1, Got: int64(len(places))})
	}
	return places[0], nil
}

func (w *Walker) move(ctx context.Context, from place, to int64) (won bool, err error) {
	moved, err := w.Session.Exec(ctx, schema.CursorMove, w.Cursor, from.Position, from.Wraps, to)
	if err != nil {
		return false, fmt.Errorf("cursor-move: %w", err)
	}
	return moved == 1, nil
}

// Lap proves that a cursor's whole way is empty: the first wrap only begins the
// proof, a later one with nothing found in between completes it, and any find
// revokes it. It is this process's own, so a fresh one can only walk longer.
type Lap struct {
	armed, dirty, proven bool
}

// Observe takes in what a claim found.
func (l *Lap) Observe(found Found) {
	if len(found.IDs) > 0 {
		l.dirty, l.proven = true, false
	}
	if !found.Wrapped {
		return
	}
	l.proven = l.armed && !l.dirty
	l.armed, l.dirty = true, false
}

// Proven says whether a whole lap found nothing.
func (l *Lap) Proven() bool { return l.proven }
