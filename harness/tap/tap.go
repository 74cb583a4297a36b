package tap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"deadwire/harness/event"
)

// TLSMode is what becomes of a client's request for TLS.
type TLSMode string

// The modes; the empty one is TLSRefuse.
const (
	TLSRefuse      TLSMode = "refuse"      // answer N: the session stays readable
	TLSPassthrough TLSMode = "passthrough" // relay it; afterwards only sizes, times and endings are seen
	TLSTerminate   TLSMode = "terminate"   // speak TLS 1.3 with the client: the session stays readable
)

// Defaults of a Config.
const (
	DefaultListen       = "127.0.0.1:0"
	DefaultRingMessages = 64
	DefaultDialTimeout  = 5 * time.Second
)

// Config says where a tap stands. Place, Upstream and Recorder are required.
type Config struct {
	Place       event.Place
	Listen      string // IP:PORT; default DefaultListen
	SocketDir   string // folder for a Unix socket to listen on as well, named after the port as libpq expects; "" for none
	AllowRemote bool   // permit Listen to be other than loopback
	Network     string // of Upstream: "tcp" (default) or "unix"
	Upstream    string // address of the next hop
	TLS         TLSMode
	// Hosts are names and addresses, besides loopback and the upstream's, that the
	// certificate of TLSTerminate is good for. A name that a client asks for in the
	// handshake is always among them.
	Hosts []string
	// ServerTLS makes the tap speak TLS with the next hop, which must offer it: for
	// servers that demand it. What is not set in it is crypto/tls's default, so
	// without InsecureSkipVerify the server is verified. Not with TLSPassthrough.
	ServerTLS *tls.Config
	Recorder  event.Recorder // must not call back into the tap or its sessions
	// OnAccept is called before any byte of a connection is relayed, and may fill in
	// who opened it. local is the tap's own address of the connection. May be nil.
	OnAccept func(id event.SessionID, client, local netip.AddrPort) event.Opened
	// OnUnix is OnAccept for connections to the Unix socket. inode is that of the tap's end.
	OnUnix       func(id event.SessionID, inode uint64) event.Opened
	RingMessages int  // messages remembered per session; default DefaultRingMessages
	Full         bool // record every message when it comes
	DialTimeout  time.Duration
}

// Tap is a running relay.
type Tap struct {
	cfg      Config
	listener *net.TCPListener
	addr     netip.AddrPort
	others   []net.Listener // the same port of the other loopback, and the Unix socket
	rules    rules
	keys     keys

	authority *authority  // with TLSTerminate
	secrets   *tls.Config // the authority's

	loops   *loops          // move the bytes, where the system has what they need
	dialing context.Context // ends when the tap closes
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	count    int
	sessions []*Session
	refusing chan struct{} // closed when refusing ends; nil when not refusing
	closed   bool
}

// Start listens and relays until Close. ctx governs the start only. Errors are of the
// configuration, or of the system when it listens.
func Start(ctx context.Context, cfg Config) (*Tap, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("start tap: %w", err)
	}
	l, err := listen(ctx, cfg.Listen, cfg.AllowRemote)
	if err != nil {
		return nil, fmt.Errorf("start tap: %w", err)
	}
	t := &Tap{cfg: cfg, listener: l, addr: l.Addr().(*net.TCPAddr).AddrPort()}
	if cfg.TLS == TLSTerminate {
		if t.authority, err = newAuthority(cfg.certified()); err != nil {
			return nil, errors.Join(fmt.Errorf("start tap: %w", err), l.Close())
		}
		t.secrets = t.authority.config()
	}
	if err := t.listenElsewhere(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start tap: %w", err), l.Close())
	}
	if t.loops, err = newLoops(); err != nil {
		return nil, errors.Join(fmt.Errorf("start tap: %w", err), l.Close(), t.closeOthers())
	}
	t.dialing, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.running.Go(t.accept)
	for _, other := range t.others {
		t.running.Go(func() { t.acceptElsewhere(other) })
	}
	return t, nil
}

func (c *Config) complete() error {
	switch {
	case c.Recorder == nil:
		return errors.New("no recorder given")
	case c.Upstream == "":
		return errors.New("no upstream given")
	case c.Place == "":
		return errors.New("no place given")
	case c.TLS == TLSPassthrough && c.ServerTLS != nil:
		return errors.New("TLS is passed through, so the tap cannot speak it with the server")
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.Network == "" {
		c.Network = "tcp"
	}
	if c.RingMessages <= 0 {
		c.RingMessages = DefaultRingMessages
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	return nil
}

// certified returns the names and addresses that the tap may be reached by.
func (c *Config) certified() []string {
	hosts := slices.Clone(c.Hosts)
	for _, address := range []string{c.Listen, c.Upstream} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// RootPEM returns the certificate by which clients can verify the tap, for libpq's
// sslrootcert; nil unless the tap terminates TLS.
func (t *Tap) RootPEM() []byte {
	if t.authority == nil {
		return nil
	}
	return t.authority.root()
}

// Addr returns the address that clients connect to.
func (t *Tap) Addr() netip.AddrPort { return t.addr }

// SocketPath returns the path of the Unix socket, "" without one.
func (t *Tap) SocketPath() string {
	if t.cfg.SocketDir == "" {
		return ""
	}
	return filepath.Join(t.cfg.SocketDir, ".s.PGSQL."+strconv.Itoa(int(t.addr.Port())))
}

// Sessions returns the live sessions in order of acceptance.
func (t *Tap) Sessions() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.sessions)
}

// Session returns the live session with that id, or nil.
func (t *Tap) Session(id event.SessionID) *Session {
	for _, s := range t.Sessions() {
		if s.id == id {
			return s
		}
	}
	return nil
}

// AddRule puts a rule behind the ones that are there; the first one that acts on a
// message is the only one. It applies to all sessions from the next bytes on. remove
// takes it away and releases what it stalls; it may be called more than once.
func (t *Tap) AddRule(r Rule) (remove func()) {
	active := t.rules.add(r)
	return func() { t.rules.remove(active) }
}

// Refuse makes the kernel refuse new connections, or accept them again. Live sessions
// are not touched. Nothing is recorded: a refused connection never gets here.
func (t *Tap) Refuse(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed, on == (t.refusing != nil):
	case on:
		t.refusing = make(chan struct{})
		_ = refuse(t.listener, true) // fails only on a closed listener
	default:
		_ = refuse(t.listener, false)
		close(t.refusing)
		t.refusing = nil
	}
}

// Close stops accepting, ends every session with FIN and waits for all of them. The
// error is ctx's, when it ends first.
func (t *Tap) Close(ctx context.Context) error {
	t.shut()
	for _, s := range t.Sessions() {
		_ = s.cut(CutFIN, event.Closing{Text: "tap closed"}) // already ended is just as well
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.running.Wait()
		t.loops.end()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close tap: %w", context.Cause(ctx))
	}
}

func (t *Tap) shut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	t.stop()
	for _, l := range append(t.others, t.listener) {
		_ = l.Close() // a listener has nothing to lose
	}
	if t.refusing != nil {
		close(t.refusing)
		t.refusing = nil
	}
}
