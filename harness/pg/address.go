package pg

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
)

const masked = "xxxxx"

// Password is a password that prints masked in every format, so that no log,
// error or report can carry it by accident.
type Password string

// Reveal returns the password itself.
func (p Password) Reveal() string { return string(p) }

// String returns a mask, or nothing when there is no password.
func (p Password) String() string {
	if p == "" {
		return ""
	}
	return masked
}

// Format implements fmt.Formatter for all verbs, %#v and %x included.
func (p Password) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, p.String()) }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (p Password) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// LogValue implements slog.LogValuer.
func (p Password) LogValue() slog.Value { return slog.StringValue(p.String()) }

// Address says where a server listens and as whom to log in.
type Address struct {
	Host      string // for TCP
	Port      int    // also part of the socket's name
	SocketDir string // folder of the Unix socket; "" when there is none that we know of
	User      string // may create databases; a superuser on a server of ours
	Password  Password
	Database  string // maintenance database, never a scenario's
}

// HostPort returns host:port for dialling.
func (a Address) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// SocketPath returns the path of the Unix socket, "" when there is none that we know of.
func (a Address) SocketPath() string {
	if a.SocketDir == "" {
		return ""
	}
	return filepath.Join(a.SocketDir, ".s.PGSQL."+strconv.Itoa(a.Port))
}

// URL returns postgres://… for a database, with the password in it and without TLS.
func (a Address) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", Host: a.HostPort(), Path: "/" + database,
		User: url.UserPassword(a.User, a.Password.Reveal()), RawQuery: "sslmode=disable",
	}
	return u.String()
}

// SocketURL returns postgres://… for a database over the Unix socket; over TCP
// when there is no socket that we know of.
func (a Address) SocketURL(database string) string {
	if a.SocketDir == "" {
		return a.URL(database)
	}
	query := url.Values{"host": {a.SocketDir}, "port": {strconv.Itoa(a.Port)}, "sslmode": {"disable"}}
	u := url.URL{
		Scheme: "postgres", Path: "/" + database,
		User: url.UserPassword(a.User, a.Password.Reveal()), RawQuery: query.Encode(),
	}
	return u.String()
}
