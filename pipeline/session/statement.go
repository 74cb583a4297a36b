package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Querier is what statements run on: a Session, or a Tx within one.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
	query(ctx context.Context, collect func(pgx.Rows) error, sql string, args ...any) error
}

// RowCountError says that a statement touched another number of rows than it must:
// the row, or the answer, was not ours.
type RowCountError struct {
	Want, Got int64
}

func (e *RowCountError) Error() string {
	return fmt.Sprintf("statement changed %d rows instead of %d", e.Got, e.Want)
}

// Exec runs one statement and returns the number of rows that it changed.
func (s *Session) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	tag, err := s.conn.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (s *Session) query(ctx context.Context, collect func(pgx.Rows) error, sql string, args ...any) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	rows, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return collect(rows)
}

// begin refuses a closed session and a caller that is already cancelled, and
// gives the statement its own bound.
func (s *Session) begin(ctx context.Context) (context.Context, func(), error) {
	if s.closed {
		return nil, nil, ErrClosed
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	stop := context.AfterFunc(ctx, func() { cancelAfterGrace(bounded, cancel) })
	return bounded, func() { stop(); cancel() }, nil
}

func cancelAfterGrace(bounded context.Context, cancel context.CancelFunc) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-timer.C:
		cancel()
	case <-bounded.Done():
	}
}

// Expect turns a row count into a RowCountError unless it is the wanted one. It
// wraps Exec: Expect(1)(session.Exec(…)). A negative one accepts any count.
func Expect(want int64) func(int64, error) error {
	return func(got int64, err error) error {
		if err == nil && want >= 0 && got != want {
			return &RowCountError{Want: want, Got: got}
		}
		return err
	}
}

// Rows collects a statement's rows into structs, by column name.
func Rows[T any](ctx context.Context, q Querier, sql string, args ...any) ([]T, error) {
	return collect(ctx, q, pgx.RowToStructByName[T], sql, args...)
}

// Column collects the only column of a statement's rows.
func Column[T any](ctx context.Context, q Querier, sql string, args ...any) ([]T, error) {
	return collect(ctx, q, pgx.RowTo[T], sql, args...)
}

// Tuples collects a statement's rows into structs, by position.
func Tuples[T any](ctx context.Context, q Querier, sql string, args ...any) ([]T, error) {
	return collect(ctx, q, pgx.RowToStructByPos[T], sql, args...)
}

// Value returns the only column of the only row.
func Value[T any](ctx context.Context, q Querier, sql string, args ...any) (T, error) {
	var value T
	values, err := Column[T](ctx, q, sql, args...)
	if err != nil {
		return value, err
	}
	if len(values) != 1 {
		return value, &RowCountError{Want: 1, Got: int64(len(values))}
	}
	return values[0], nil
}

func collect[T any](ctx context.Context, q Querier, to pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	var values []T
	err := q.query(ctx, func(rows pgx.Rows) (err error) {
		values, err = pgx.CollectRows(rows, to)
		return err
	}, sql, args...)
	return values, err
}

// IsServerError says whether the server answered with an error, as opposed to a
// connection that broke.
func IsServerError(err error) bool {
	_, ok := errors.AsType[*pgconn.PgError](err)
	return ok
}
