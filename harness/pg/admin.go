package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// AdminName is the application_name of deadwire's own sessions, by which they
// are told from the subject's.
const AdminName = "deadwire/admin"

// SQLSTATEs that matter here; PostgreSQL manual, appendix A.
const (
	stateCannotConnectNow   = "57P03"
	stateTooManyConnections = "53300"
)

// Admin opens a session in the maintenance database, past every tap. The
// caller closes it.
func Admin(ctx context.Context, server Server) (*pgx.Conn, error) {
	conn, err := Connect(ctx, server.URL(server.Address().Database))
	if err != nil {
		return nil, fmt.Errorf("open admin session: %w", err)
	}
	return conn, nil
}

// Connect opens a session of deadwire's own at a URL. Start-up options in the
// environment (PGOPTIONS and the like) do not reach it.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams = map[string]string{"application_name": AdminName}
	return pgx.ConnectConfig(ctx, cfg)
}

// NotReady reports whether a connection error is one that passes by itself: the
// server is starting, recovering or stopping, or has no slot free.
func NotReady(err error) bool {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) {
		var connect *pgconn.ConnectError
		return errors.As(err, &connect)
	}
	return refusal.Code == stateCannotConnectNow || refusal.Code == stateTooManyConnections
}
