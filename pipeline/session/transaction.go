package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"deadwire/pipeline/schema"
)

// Tx is a transaction within a session. Each of its statements has the session's
// bound.
type Tx struct {
	session *Session
	begun   pgx.Tx
}

// InTx runs body between begin and commit. When body fails, the transaction is
// rolled back and body's error is returned. An error of the commit itself leaves
// the outcome unknown when the session was lost.
func (s *Session) InTx(ctx context.Context, body func(*Tx) error) error {
	begun, err := s.start(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err = body(&Tx{session: s, begun: begun})
	if err != nil {
		return errors.Join(err, s.rollback(ctx))
	}
	return s.commit(context.WithoutCancel(ctx))
}

func (s *Session) start(ctx context.Context) (pgx.Tx, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.conn.Begin(ctx)
}

// Raw lends the transaction to a library that writes within it. Its end stays ours:
// neither Commit nor Rollback may be called.
func (t *Tx) Raw() pgx.Tx { return t.begun }

// commit insists on the word COMMIT: a server that answers ROLLBACK kept nothing.
func (s *Session) commit(ctx context.Context) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	defer done()
	tag, err := s.conn.Exec(ctx, "commit")
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("commit: server answered %q", tag.String())
	}
	return nil
}

// rollback keeps a live session usable; a lost or closed one has nothing to undo.
func (s *Session) rollback(ctx context.Context) error {
	if s.closed || s.Lost() {
		return nil
	}
	_, err := s.Exec(context.WithoutCancel(ctx), "rollback")
	if err != nil && !s.Lost() {
		return fmt.Errorf("rollback: %w", err)
	}
	return nil
}

// Exec runs one statement and returns the number of rows that it changed.
func (t *Tx) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	return t.session.Exec(ctx, sql, args...)
}

func (t *Tx) query(ctx context.Context, collect func(pgx.Rows) error, sql string, args ...any) error {
	return t.session.query(ctx, collect, sql, args...)
}

// Step is one statement of a batch: what it runs and how many rows it must change.
type Step struct {
	SQL  string
	Args []any
	// Want is the row count that the answer must show; negative: any.
	Want int64
}

// Batch sends all steps in one round trip and checks each answer. It stops at
// the first that failed, and names it by its label.
func (t *Tx) Batch(ctx context.Context, steps ...Step) error {
	ctx, done, err := t.session.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	batch := &pgx.Batch{}
	for _, step := range steps {
		batch.Queue(step.SQL, step.Args...)
	}
	results := t.session.conn.SendBatch(ctx, batch)
	err = checkBatch(results, steps)
	return errors.Join(err, ignoreAfter(err, results.Close()))
}

func checkBatch(results pgx.BatchResults, steps []Step) error {
	for _, step := range steps {
		tag, err := results.Exec()
		err = Expect(step.Want)(tag.RowsAffected(), err)
		if err != nil {
			return fmt.Errorf("%s: %w", schema.Label(step.SQL), err)
		}
	}
	return nil
}

// ignoreAfter drops the second error of a broken batch: pgx repeats the first.
func ignoreAfter(first, second error) error {
	if first != nil {
		return nil
	}
	return second
}
