package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"deadwire/harness/event"
	"deadwire/harness/proxy"
	"deadwire/harness/subject"
	"deadwire/harness/tap"
	"deadwire/harness/wait"
	"deadwire/harness/witness"
)

// LaneConfig says how one run of a subject is watched.
type LaneConfig struct {
	Name     string // of the lane's link, unique in the rig at any time
	Database *Database
	// Dir receives events.jsonl; "" keeps the journal in memory only.
	Dir string
	// Witness says how the subject's processes are watched; Recorder is filled in.
	Witness witness.Options
	// TLS is what the front tap does about a client's request for TLS.
	TLS tap.TLSMode
	// ServerTLS makes the tap before the server speak TLS with it; see tap.Config.
	ServerTLS *tls.Config
	// Watch leaves out Toxiproxy and the back tap: subject, tap, server.
	Watch bool
	// Socket makes the front tap listen on a Unix socket too; see SocketDir.
	Socket bool
	// Messages records every protocol message, not only those around an ending.
	Messages bool
}

// Lane is the data path of one run: subject, front tap, Toxiproxy, back tap,
// server; with the journal and the witness of that run.
type Lane struct {
	Database  *Database
	Journal   *event.Journal
	Front     *tap.Tap
	Back      *tap.Tap    // nil in watch mode
	Link      *proxy.Link // nil in watch mode
	Witness   *witness.Witness
	SocketDir string // of the front tap, as libpq takes it for a host; "" without one

	root  string // file of the CA by which a tap that terminates TLS can be verified
	rig   *Rig
	stops []func(context.Context) error
}

// NewLane builds the path from the server towards the subject. What it began
// before an error is taken back before it returns.
func (r *Rig) NewLane(ctx context.Context, cfg LaneConfig) (*Lane, error) {
	l := &Lane{rig: r, Database: cfg.Database}
	if err := l.build(ctx, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("build lane: %w", err), l.Close(ctx))
	}
	return l, nil
}

func (l *Lane) build(ctx context.Context, cfg LaneConfig) error {
	if err := l.openJournal(cfg.Dir); err != nil {
		return err
	}
	l.witnessed(cfg)
	network, upstream := l.Upstream()
	secrets := cfg.ServerTLS
	if !cfg.Watch {
		secrets = nil // the back tap's
		var err error
		if upstream, err = l.through(ctx, cfg, network, upstream); err != nil {
			return err
		}
		network = "tcp"
	}
	if cfg.Socket {
		if err := l.makeSocketDir(); err != nil {
			return err
		}
	}
	front, err := tap.Start(ctx, tap.Config{
		Place: event.Front, Network: network, Upstream: upstream, Recorder: forgetful{l.Journal, l.Witness},
		SocketDir: l.SocketDir, OnAccept: l.Witness.Accepted, OnUnix: l.Witness.AcceptedUnix, Full: cfg.Messages, TLS: cfg.TLS, ServerTLS: secrets,
	})
	if err != nil {
		return err
	}
	l.Front = front
	l.onClose(front.Close)
	if err := l.writeRoot(cfg.Dir); err != nil {
		return err
	}
	l.listen()
	return nil
}

// makeSocketDir makes the folder of the front tap's Unix socket.
func (l *Lane) makeSocketDir() error {
	dir, err := os.MkdirTemp("", "deadwire-socket-") // short: the path of a socket is limited
	if err != nil {
		return fmt.Errorf("make the socket's folder: %w", err)
	}
	l.SocketDir = dir
	l.onClose(func(context.Context) error { return os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // the subject may become another user
		return fmt.Errorf("open the socket's folder: %w", err)
	}
	if owner := l.rig.cfg.Owner; owner != nil {
		return owner.OwnDir(dir)
	}
	return nil
}

// Upstream returns the network and address of the server itself.
func (l *Lane) Upstream() (network, address string) {
	a := l.Database.Server().Address()
	if a.Host == "" {
		return "unix", a.SocketPath()
	}
	return "tcp", a.HostPort()
}

func (l *Lane) openJournal(dir string) error {
	if dir == "" {
		l.Journal = event.NewJournal(nil, 0)
		return nil
	}
	file, err := os.OpenFile(filepath.Join(dir, "events.jsonl"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	l.Journal = event.NewJournal(file, 0)
	l.onClose(func(context.Context) error { return errors.Join(l.Journal.Err(), file.Close()) })
	return nil
}

func (l *Lane) witnessed(cfg LaneConfig) {
	options := cfg.Witness
	options.Recorder = l.Journal
	l.Witness = witness.New(options)
	l.onClose(l.Witness.Close)
}

// through puts the back tap and Toxiproxy before the server, and returns the
// link's address. The back tap is Toxiproxy's upstream because Toxiproxy dials
// without a limit (wire facts, section 7): a local tap always answers.
func (l *Lane) through(ctx context.Context, cfg LaneConfig, network, upstream string) (string, error) {
	mode := cfg.TLS
	if mode == tap.TLSTerminate {
		mode = tap.TLSRefuse // the front tap has ended it already
	}
	back, err := tap.Start(ctx, tap.Config{
		Place: event.Back, Network: network, Upstream: upstream, Recorder: l.Journal, Full: cfg.Messages, TLS: mode, ServerTLS: cfg.ServerTLS,
	})
	if err != nil {
		return "", err
	}
	l.Back = back
	l.onClose(back.Close)
	link, err := l.rig.proxy.NewLink(ctx, cfg.Name, back.Addr().String())
	if err != nil {
		return "", err
	}
	l.Link = link
	l.onClose(link.Close)
	return link.Addr().String(), nil
}

// listen makes the server's log reach the journal.
func (l *Lane) listen() {
	s := l.Database.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes[l] = struct{}{}
	l.onClose(func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.lanes, l)
		return nil
	})
}

func (l *Lane) onClose(stop func(context.Context) error) { l.stops = append(l.stops, stop) }

// Start runs a subject on the lane. Its environment must come from Env. The
// instance must be closed before the lane.
func (l *Lane) Start(ctx context.Context, command subject.Command) (*subject.Instance, error) {
	return subject.Start(ctx, command, subject.Options{Recorder: l.Journal, Witness: l.Witness, Owner: l.rig.cfg.Owner})
}

// Settle waits until every session that the subject opened has ended at both
// taps and the server has let go of it, so that the endings are the subject's
// own and not the taps'. The error names what is left when ctx ends.
func (l *Lane) Settle(ctx context.Context) error {
	return wait.For(ctx, "the subject's sessions to end", func(context.Context) wait.Answer {
		left := len(l.Front.Sessions())
		if l.Back != nil {
			left += len(l.Back.Sessions())
		}
		if left > 0 {
			return wait.NotYet("%s views are left", strconv.Itoa(left))
		}
		return wait.Done()
	})
}

// Close takes the path down from the subject's side. It is repeatable.
func (l *Lane) Close(ctx context.Context) error {
	stops := l.stops
	l.stops = nil
	return stopAll(ctx, stops)
}

// forgetful is a recorder that tells the witness when a session is over.
type forgetful struct {
	*event.Journal
	witness *witness.Witness
}

// Record implements event.Recorder.
func (f forgetful) Record(e event.Event) {
	f.Journal.Record(e)
	if e.Kind == event.SessionEnded {
		f.witness.Ended(e.Session)
	}
}
