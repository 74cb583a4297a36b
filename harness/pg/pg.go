package pg

import (
	"context"
	"time"
)

// Provider starts servers of one kind.
type Provider interface {
	// Name is the word for the kind in reports and flags: "local", "docker",
	// "embedded", "external".
	Name() string
	// Available returns nil, or an error that says why no server can be had
	// here and what mends it.
	Available(ctx context.Context) error
	// Start returns a server that accepts sessions. Whatever it began before an
	// error is taken back before it returns.
	Start(ctx context.Context, cfg Config) (Server, error)
}

// Preparer is a Provider that may have to fetch something, such as an image,
// before its first start. Start does it too; Prepare lets a caller do it early,
// and tell from its error that the provider is of no use here.
type Preparer interface {
	Prepare(ctx context.Context) error
}

// Config says how a server is started. Only Dir is required.
type Config struct {
	Dir      string            // private folder for data, socket and log; exists and is ours
	Settings map[string]string // further postgresql.conf settings for this server
	CacheDir string            // where initialised folders are cached; "" = the user's cache folder + "deadwire"
	OnLog    func(LogEntry)    // called for each entry of the server's log, in order, from one goroutine; must not block; may be nil
	Owner    Owner             // told of every process and folder, so that a janitor can end them; may be nil
}

// Owner keeps account of what must not outlive the run.
type Owner interface {
	OwnProcess(pid int) error
	OwnDir(path string) error
	// Own records a thing of another kind, such as a container.
	Own(kind, value string) error
}

// LogEntry is one entry of the server's log. Text holds the message and, on
// further lines, its DETAIL and HINT; statements, contexts and bind values are
// left out.
type LogEntry struct {
	Time            time.Time
	BackendPID      int // process that wrote it: a backend, or the postmaster and its helpers
	Severity        string
	SQLState        string
	Text            string
	Database        string
	ApplicationName string
}

// Mode is how a server is shut down, in pg_ctl's words.
type Mode string

// The modes. Fast ends sessions with FATAL 57P01 and writes a checkpoint;
// Immediate quits without one, so the next start runs recovery.
const (
	Fast      Mode = "fast"
	Immediate Mode = "immediate"
)

// Power is something that only the one who started a server can do to it.
type Power string

// The powers over a server.
const (
	ToRestart   Power = "restart"
	ToCrash     Power = "crash a backend"
	ToReadLog   Power = "read the log"
	ToConfigure Power = "change the configuration"
)

// Server is a running PostgreSQL. Its methods are safe for concurrent use.
type Server interface {
	// Provider names the kind of provider that gave the server.
	Provider() string
	Version() Version
	Address() Address
	// URL returns postgres://… for a database, with the password in it, over TCP.
	URL(database string) string
	// PID returns the postmaster's process id; 0 when the server is not ours. In
	// a container it is the container's pid, and none of this system's.
	PID() int
	// Can returns nil, or a NotOursError that says why the power is lacking.
	Can(Power) error
	// Restart shuts the server down in the given mode, starts it again at the
	// same address and returns once it accepts sessions. A server that died
	// before is only started.
	Restart(ctx context.Context, mode Mode) error
	// CrashBackend kills one backend with SIGKILL, so that the server ends all
	// sessions and recovers, and returns once it accepts sessions again. The
	// pid must be a child of our postmaster at that moment.
	CrashBackend(ctx context.Context, backendPID int) error
	// OnStop adds something to be released at the beginning of Stop, while the
	// server still accepts sessions; the last one added goes first.
	OnStop(release func(context.Context) error)
	// Stop ends the server, or, if it is not ours, drops what we made in it.
	// It is repeatable, and finishes its work even when ctx has ended.
	Stop(ctx context.Context) error
}
