// Package external gives the harness a PostgreSQL that someone else started, by
// its URL.
//
// It owns nothing on that server but the databases that pg.Databases makes in it.
// Restarts, crashes, settings and the log need the server's process, so it refuses
// them with a reason. The server is authoritative about its version.
package external

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"deadwire/harness/pg"
)

// Name is the provider's name.
const Name = "external"

// Options say what is allowed.
type Options struct {
	AllowRemote bool // an address that is not this machine's loopback or a Unix socket
	// AsIs uses the server as it stands: nothing is made in it, so that the user
	// need not be allowed to create databases, and it may be a standby.
	AsIs bool
}

// RemoteError says that a host is not on this machine, and that this was not allowed.
type RemoteError struct {
	Host string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("host %s is not on this machine: faults would reach others; allow it with --allow-remote", e.Host)
}

// Provider connects to one server.
type Provider struct {
	url     pg.Password // the whole URL, since it holds the password
	options Options
}

// New returns a provider for postgres://USER:PASSWORD@HOST:PORT/DATABASE, where
// DATABASE is the maintenance database. Nothing is contacted before it is used.
func New(url string, options Options) *Provider {
	return &Provider{url: pg.Password(url), options: options}
}

// Name implements pg.Provider.
func (p *Provider) Name() string { return Name }

// Available implements pg.Provider: it opens a session and checks the version
// and the right to create databases.
func (p *Provider) Available(ctx context.Context) error {
	_, err := p.look(ctx)
	return err
}

// Start implements pg.Provider. Config.Settings must be empty; OnLog is never
// called, and Owner gets nothing.
func (p *Provider) Start(ctx context.Context, cfg pg.Config) (pg.Server, error) {
	if len(cfg.Settings) > 0 {
		return nil, fmt.Errorf("use postgres: %w", lacking(pg.ToConfigure))
	}
	s, err := p.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("use postgres: %w", err)
	}
	return s, nil
}

func (p *Provider) look(ctx context.Context) (*server, error) {
	base, err := url.Parse(p.url.Reveal())
	if err != nil || (base.Scheme != "postgres" && base.Scheme != "postgresql") {
		return nil, errors.New("the address must look like postgres://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	cfg, err := pgx.ParseConfig(p.url.Reveal())
	if err != nil {
		return nil, err // pgx masks the password
	}
	if err := p.checkHosts(ctx, cfg); err != nil {
		return nil, err
	}
	conn, err := pg.Connect(ctx, p.url.Reveal())
	if err != nil {
		return nil, err
	}
	s := &server{base: base, address: addressOf(cfg)}
	s.version, err = inspect(ctx, conn, p.options.AsIs)
	return s, errors.Join(err, conn.Close(ctx))
}

func (p *Provider) checkHosts(ctx context.Context, cfg *pgx.ConnConfig) error {
	hosts := []string{cfg.Host}
	for _, fallback := range cfg.Fallbacks {
		hosts = append(hosts, fallback.Host)
	}
	for _, host := range hosts {
		if !p.options.AllowRemote && !onThisMachine(ctx, host) {
			return &RemoteError{Host: host}
		}
	}
	return nil
}

func onThisMachine(ctx context.Context, host string) bool {
	if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") { // Unix socket
		return true
	}
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	for _, address := range addresses {
		if !address.IP.IsLoopback() {
			return false
		}
	}
	return err == nil && len(addresses) > 0
}

func addressOf(cfg *pgx.ConnConfig) pg.Address {
	a := pg.Address{
		Host: cfg.Host, Port: int(cfg.Port), User: cfg.User,
		Password: pg.Password(cfg.Password), Database: cfg.Database,
	}
	if strings.HasPrefix(a.Host, "/") {
		a.Host, a.SocketDir = "", a.Host
	}
	return a
}

// inspect checks that the server is one that we can work on.
func inspect(ctx context.Context, conn *pgx.Conn, asIs bool) (pg.Version, error) {
	var number int
	var may, standby bool
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, rolsuper OR rolcreatedb, pg_is_in_recovery()
		FROM pg_roles WHERE rolname = current_user`).Scan(&number, &may, &standby)
	if err != nil {
		return pg.Version{}, fmt.Errorf("inspect server: %w", err)
	}
	version := pg.VersionOfNumber(number)
	switch {
	case asIs:
		return version, version.Supported()
	case standby:
		return version, errors.New("the server is a standby: give the address of its primary")
	case !may:
		return version, errors.New("the user may not create databases: grant it with ALTER ROLE … CREATEDB")
	default:
		return version, version.Supported()
	}
}
