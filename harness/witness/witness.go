package witness

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"deadwire/harness/event"
)

// SendFilter says which sends of the subject are stopped at and looked at.
type SendFilter int

// The filters. A send is any of sendto (and so send), write, writev, sendmsg, sendmmsg.
const (
	// Endings looks only at sends that can carry a Terminate message: of its
	// length, glued behind a Sync, or in a short vector. The cost is below the
	// noise, since almost no other send has these lengths.
	Endings SendFilter = iota
	// All looks at every send, some 10 µs each, so that shared use is seen even
	// when nobody says Terminate.
	All
	// Senders looks at every send as All does, but for writes to the standard
	// streams, and records only those by which the sender on a session changes, be it to another
	// thread that had not sent before.
	Senders
)

// Decision is the answer to a call that the witness asks about.
type Decision int

// The decisions. The zero value lets the subject do what it wanted to do.
const (
	Proceed  Decision = iota
	Suppress          // the caller is told that the call succeeded; it is not carried out
)

// Options configure a Witness.
type Options struct {
	Recorder event.Recorder // required
	Sends    SendFilter
	// TLS also stops at sends of 24 and 27 bytes: close_notify and an encrypted
	// five-byte message under TLS 1.3. Set it when the tap terminates TLS.
	TLS bool
	// RefuseRing answers io_uring_setup with ENOSYS, as an old kernel does: what is
	// sent through a ring is no system call and so is not seen. Programs that can do
	// without go back to sends.
	RefuseRing bool
	// Disabled forces the holders witness, as if seccomp could not be had.
	Disabled bool
	// Decide, when set, is asked about each recorded send, shutdown and connect
	// while the caller stands still. It is the seam for guard and proof; it must
	// return at once. Only sends and shutdowns can be suppressed.
	Decide func(Question) Decision
	// Redirect, when set, is asked about each connect, by its address as Call.Remote
	// has it, and returns where it is to go instead: IP:PORT of IPv4, which sockets
	// for IPv6 reach too, or unix:PATH for sockets of that family. "" leaves it alone.
	// It needs the exact witness.
	Redirect func(remote string) string
	// Blind looks at no process at all: what the taps see is all there is.
	Blind bool
}

// Question is what Decide is asked.
type Question struct {
	PID     int             // thread group of the caller
	Session event.SessionID // zero when the socket belongs to no session
	Opener  int             // of that socket, 0 when unknown
	Call    event.Call
}

// Tracker is the process tree of one subject. Package subject implements it.
// Its methods are called from many goroutines, some of them while a process of
// the tree stands still in a system call.
type Tracker interface {
	// Observe says that pid belongs to the tree and is alive now.
	Observe(pid int)
	// Execing says that pid asked to become another program; it may still fail.
	Execing(pid int)
	// Exiting says that pid is about to exit with code, its children still below it.
	Exiting(pid, code int)
	// PIDs returns the live processes that are known.
	PIDs() []int
	// Refresh looks at the system for new processes, and returns the live ones.
	Refresh() []int
}

// The certainties that a Witness can have. They are the words of the reports.
const (
	Exact    = "exact"
	Holders  = "holders"
	Inferred = "inferred" // of a blind witness: from the wire alone
)

// Witness records what the processes of any number of subjects do to sessions.
// It is safe for concurrent use.
type Witness struct {
	options     Options
	unavailable error // why not exact, nil when exact
	inodes      inodeSource
	sessions    registry
	softwares   softwares
	poll        *poller

	mu       sync.Mutex
	trees    map[Tracker]struct{}
	fellBack bool
	told     map[string]struct{} // failures that were recorded already
}

// New returns a witness, which must be closed. It never fails: where the exact
// witness is not available a witness.failed event says why, and holders are
// all there is.
func New(options Options) *Witness {
	w := &Witness{
		options:  options,
		trees:    map[Tracker]struct{}{},
		told:     map[string]struct{}{},
		sessions: newRegistry(),
	}
	w.unavailable = Available()
	if options.Disabled {
		w.unavailable = errors.New("the exact witness is switched off")
	}
	if options.Blind {
		w.unavailable = errors.New("no process is looked at")
	}
	if w.unavailable != nil {
		w.fail("exact witness", w.unavailable)
	}
	w.poll = startPoller(w)
	return w
}

// Certainty returns Exact when every subject so far was started under system
// call notification, otherwise Holders, or Inferred when it is blind.
func (w *Witness) Certainty() string {
	if w.options.Blind {
		return Inferred
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unavailable != nil || w.fellBack {
		return Holders
	}
	return Exact
}

// Accepted registers a session that a tap has just accepted. client is the
// address of the subject's end, local the tap's. It must be called before a
// byte is relayed: later the inode may be gone. What could not be told is zero.
func (w *Witness) Accepted(id event.SessionID, client, local netip.AddrPort) event.Opened {
	opened := event.Opened{Client: client.String()}
	if w.options.Blind {
		return opened
	}
	inode, err := w.inodes.lookup(client, local)
	return w.register(id, opened, inode, err)
}

// AcceptedUnix is Accepted for a connection to a tap's Unix socket; inode is that of
// the tap's end.
func (w *Witness) AcceptedUnix(id event.SessionID, inode uint64) event.Opened {
	if w.options.Blind {
		return event.Opened{}
	}
	peer, err := w.inodes.peerOf(inode)
	return w.register(id, event.Opened{}, peer, err)
}

// register remembers a session by the inode of the subject's end, and says who
// opened it.
func (w *Witness) register(id event.SessionID, opened event.Opened, inode uint64, err error) event.Opened {
	if err != nil {
		w.fail("socket inode", err)
	}
	if inode == 0 {
		return opened
	}
	opened.Inode = inode
	opened.Opener = w.sessions.opener(inode)
	if opened.Opener != 0 {
		opened.Software = w.softwares.of(opened.Opener)
		w.sessions.add(id, inode, opened.Opener, []int{opened.Opener})
		w.poll.wake()
		return opened
	}
	holders := w.holders(inode)
	if len(holders) == 1 {
		opened.Opener = holders[0]
		opened.Software = w.softwares.of(opened.Opener)
	}
	w.sessions.add(id, inode, opened.Opener, holders)
	if len(holders) > 1 {
		w.recordShared(id, opened.Opener, holders)
	}
	w.poll.wake()
	return opened
}

// Look has the holders of all sessions looked at soon, as after a process died of
// a signal: that it let go is seen by nobody else.
func (w *Witness) Look() { w.poll.execing() }

// EndsLawfully reports whether a process that may end a session, its opener or an
// heir of it, was seen to send what ends it. What comes over the wire without that was
// sent by another one, or in a way that the witness does not see.
func (w *Witness) EndsLawfully(id event.SessionID) bool { return w.sessions.lawful(id) }

// Ended forgets a session. Unknown ids are ignored.
func (w *Witness) Ended(id event.SessionID) { w.sessions.remove(id) }

// HoldersOf looks now at who holds the subject's end of a session, and records
// a change. It returns nil for a session that is not registered.
func (w *Witness) HoldersOf(id event.SessionID) []int {
	inode, known := w.sessions.inode(id)
	if !known {
		return nil
	}
	return w.holders(inode)
}

// Close ends the polling. Subjects must have been closed before: their launches
// end with them.
func (w *Witness) Close(ctx context.Context) error {
	return errors.Join(w.poll.stop(ctx), w.inodes.close())
}

// holders scans the trees for holders of one inode, and records a change.
func (w *Witness) holders(inode uint64) []int {
	began := time.Now()
	pids := scanHolders(w.refresh(), map[uint64]struct{}{inode: {}})[inode]
	w.sessions.lookedAt(inode, time.Since(began))
	w.observed(inode, pids)
	return pids
}

func (w *Witness) observed(inode uint64, pids []int) {
	if id, opener, changed := w.sessions.observe(inode, pids); changed {
		w.recordShared(id, opener, pids)
	}
}

func (w *Witness) recordShared(id event.SessionID, opener int, pids []int) {
	w.options.Recorder.Record(event.Event{
		Kind: event.SessionShared, Session: id,
		Holders: &event.Holders{Opener: opener, PIDs: pids},
	})
}

func (w *Witness) attach(tree Tracker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trees[tree] = struct{}{}
}

func (w *Witness) detach(tree Tracker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.trees, tree)
}

func (w *Witness) attached() []Tracker {
	w.mu.Lock()
	defer w.mu.Unlock()
	trees := make([]Tracker, 0, len(w.trees))
	for tree := range w.trees {
		trees = append(trees, tree)
	}
	return trees
}

func (w *Witness) refresh() []int {
	var pids []int
	for _, tree := range w.attached() {
		pids = append(pids, tree.Refresh()...)
	}
	return pids
}

func (w *Witness) known() []int {
	var pids []int
	for _, tree := range w.attached() {
		pids = append(pids, tree.PIDs()...)
	}
	return pids
}

// fail records missing evidence, once for each different reason.
func (w *Witness) fail(what string, err error) {
	w.mu.Lock()
	_, told := w.told[what+err.Error()]
	w.told[what+err.Error()] = struct{}{}
	w.mu.Unlock()
	if !told {
		w.options.Recorder.Record(event.Event{
			Kind: event.WitnessFailed,
			Step: &event.Step{Name: what, Note: err.Error()},
		})
	}
}
