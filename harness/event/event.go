package event

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind says which fact an Event is, and so which of its details is set.
type Kind string

// The kinds of events. The detail that each one carries is named behind it.
const (
	ProcessStarted  Kind = "process.started"   // Process
	ProcessExeced   Kind = "process.execed"    // Process
	ProcessExited   Kind = "process.exited"    // Process, with Code or Signal
	ProcessCalled   Kind = "process.called"    // Call: a system call seen by the exact witness
	ProcessStack    Kind = "process.stack"     // Step.Note: what the user's stack command said of a stopped process
	ProcessStranded Kind = "process.stranded"  // Stranded: its only thread waits for one that it does not have
	SessionOpened   Kind = "session.opened"    // Opened: a tap accepted a connection
	SessionNamed    Kind = "session.named"     // Named: start-up finished, the backend pid is known
	SessionShared   Kind = "session.shared"    // Holders: the set of holders changed
	SessionMessage  Kind = "session.message"   // Message
	SessionClosing  Kind = "session.closing"   // Closing: one leg began to end, in some manner
	SessionEnded    Kind = "session.ended"     // Ended: both legs are gone
	SessionCancel   Kind = "session.cancel"    // Named.BackendPID: a CancelRequest for that backend
	FaultInjected   Kind = "fault.injected"    // Fault
	FaultBit        Kind = "fault.bit"         // Fault: it was seen to act, on Session or PID
	FaultHealed     Kind = "fault.healed"      // Fault
	ServerLogged    Kind = "server.logged"     // Log; PID is the backend's
	ServerChanged   Kind = "server.changed"    // Step: started, stopped, restarted, crashed
	SubjectOutput   Kind = "subject.output"    // Output
	StepReached     Kind = "step.reached"      // Step
	JournalFull     Kind = "journal.full"      // the bound was reached; what follows was dropped
	WitnessFailed   Kind = "witness.failed"    // Step.Note says why evidence is missing
	DatabaseFact    Kind = "database.observed" // Step: a fact read from the database by the harness
)

// Event is one fact. Kind says which detail pointer is set; the others are nil.
type Event struct {
	Seq     int64         `json:"seq"`   // position in the journal, from 1; evidence refers to it
	At      time.Duration `json:"at_ns"` // nanoseconds since the journal began, monotonic
	Kind    Kind          `json:"kind"`
	PID     int           `json:"pid,omitempty"`
	Session SessionID     `json:"session,omitzero"`

	Process  *Process  `json:"process,omitempty"`
	Stranded *Stranded `json:"stranded,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	Opened   *Opened   `json:"opened,omitempty"`
	Named    *Named    `json:"named,omitempty"`
	Holders  *Holders  `json:"holders,omitempty"`
	Message  *Message  `json:"message,omitempty"`
	Closing  *Closing  `json:"closing,omitempty"`
	Ended    *Ended    `json:"ended,omitempty"`
	Fault    *Fault    `json:"fault,omitempty"`
	Log      *Log      `json:"log,omitempty"`
	Output   *Output   `json:"output,omitempty"`
	Step     *Step     `json:"step,omitempty"`
}

// Place names a tap by where it stands in the data path.
type Place string

// The two places of a tap. Watch mode has a front tap only.
const (
	Front Place = "front" // sees what the subject saw
	Back  Place = "back"  // sees what the server saw
)

// SessionID names a session as one tap saw it. The two views of a session are
// joined by the backend pid, by diagnosis.
type SessionID struct {
	Place Place
	N     int // from 1, in order of acceptance
}

// IsZero reports whether the id names no session.
func (id SessionID) IsZero() bool { return id == SessionID{} }

// String returns the id as it stands in reports and JSON: "front/3".
func (id SessionID) String() string { return string(id.Place) + "/" + strconv.Itoa(id.N) }

// MarshalText implements encoding.TextMarshaler.
func (id SessionID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *SessionID) UnmarshalText(text []byte) error {
	place, number, found := strings.Cut(string(text), "/")
	n, err := strconv.Atoi(number)
	if !found || err != nil {
		return fmt.Errorf("session id %q: want PLACE/NUMBER, such as front/3", text)
	}
	*id = SessionID{Place: Place(place), N: n}
	return nil
}

// Process describes a process of the subject.
type Process struct {
	PPID       int      `json:"ppid,omitempty"`
	Argv       []string `json:"argv,omitempty"`
	StartTicks uint64   `json:"start_ticks,omitempty"` // field 22 of /proc/PID/stat: with the pid, an identity
	Code       *int     `json:"code,omitempty"`        // exit code, on ProcessExited
	Signal     string   `json:"signal,omitempty"`      // such as SIGKILL, on ProcessExited
}

// Stranded says that the only thread of a process has waited in one go for a lock in
// memory that it shares with nobody.
type Stranded struct {
	For           time.Duration `json:"for_ns"` // until now
	PPID          int           `json:"ppid"`
	ParentThreads int           `json:"parent_threads"` // that fork did not copy; 0 when the parent is gone
}

// CallName names the system call that the exact witness saw.
type CallName string

// The calls that can open, use or end a session, or a process.
const (
	CallConnect  CallName = "connect"
	CallSend     CallName = "send" // send, sendto, sendmsg, sendmmsg, write, writev
	CallShutdown CallName = "shutdown"
	CallExec     CallName = "exec"
	CallExit     CallName = "exit"
)

// Call is one observed system call. Event.PID is the caller's thread group.
type Call struct {
	Name   CallName `json:"name"`
	TID    int      `json:"tid,omitempty"` // the calling thread, unless it is the main one
	FD     int      `json:"fd"`
	Inode  uint64   `json:"inode,omitempty"`  // of the socket behind FD
	Bytes  int      `json:"bytes,omitempty"`  // length of a send
	Type   string   `json:"type,omitempty"`   // protocol message it begins with: Terminate, Query, …
	Remote string   `json:"remote,omitempty"` // address of a connect
	// Redirected is where the connect was sent instead of Remote.
	Redirected string `json:"redirected,omitempty"`
	Holders    []int  `json:"holders,omitempty"` // pids with a descriptor for the inode at that moment
	Code       int    `json:"code,omitempty"`    // of an exit
	Blocked    bool   `json:"blocked,omitempty"` // answered without being carried out
}

// Opened describes an accepted connection.
type Opened struct {
	Client string `json:"client"`          // address of the peer towards the subject
	Inode  uint64 `json:"inode,omitempty"` // of the subject's end, 0 when it could not be told
	Opener int    `json:"opener,omitempty"`
	// Software is what the opener was seen to use: drivers and what lies above them,
	// by the files that it has mapped or open and the modules it was built with.
	Software []string `json:"software,omitempty"`
}

// Named holds what start-up told about a session.
type Named struct {
	BackendPID      int    `json:"backend_pid"`
	User            string `json:"user,omitempty"`
	Database        string `json:"database,omitempty"`
	ApplicationName string `json:"application_name,omitempty"`
	Protocol        string `json:"protocol,omitempty"` // such as 3.0
	Driver          string `json:"driver,omitempty"`   // if the start-up parameters are those of one driver only
}

// Holders is the set of processes that hold the subject's end of a session.
type Holders struct {
	Opener int   `json:"opener,omitempty"`
	PIDs   []int `json:"pids"`
}

// Side is the end of a session from which bytes or an ending came.
type Side string

// The sides, as a message's origin or as the leg of a closing.
const (
	Frontend Side = "frontend" // towards the subject
	Backend  Side = "backend"  // towards the server
)

// Message is one protocol message, without its payload.
type Message struct {
	From     Side   `json:"from"`
	Type     string `json:"type"`            // name in the protocol document: Query, Parse, DataRow, …
	Length   int    `json:"length"`          // bytes with the type byte
	Tx       string `json:"tx,omitempty"`    // I, T or E, on ReadyForQuery
	Verb     string `json:"verb,omitempty"`  // first keyword of a statement, or a CommandComplete's tag word
	Label    string `json:"label,omitempty"` // text of the statement's leading comment: /* conveyor:partition */
	SQLState string `json:"sqlstate,omitempty"`
	Severity string `json:"severity,omitempty"`
	Dropped  bool   `json:"dropped,omitempty"` // a rule kept it from the other side
}

// Manner is how a leg ended.
type Manner string

// The manners of design section 5.
const (
	Terminate Manner = "terminate"
	FIN       Manner = "fin"
	RST       Manner = "rst"
	Fatal     Manner = "fatal"
	Silence   Manner = "silence"
	Desync    Manner = "desync"
	Refused   Manner = "refused"
)

// State is where in its life a session was.
type State string

// The states of a session.
const (
	Startup       State = "startup"
	Idle          State = "idle"
	InTransaction State = "in transaction"
	Failed        State = "failed transaction"
	InQuery       State = "in query"
	InCopy        State = "in COPY"
	Committing    State = "committing" // COMMIT sent, no answer yet
)

// Closing is the first sign of an ending on one leg of a tap.
type Closing struct {
	From     Side   `json:"from"` // the leg that ended, as this tap saw it
	Manner   Manner `json:"manner"`
	State    State  `json:"state"`
	SQLState string `json:"sqlstate,omitempty"`
	Text     string `json:"text,omitempty"`  // the server's words, or why the tap closed
	Cause    string `json:"cause,omitempty"` // fault id, when the tap did it on request
}

// Ended sums a session up after both legs are gone.
type Ended struct {
	State         State `json:"state"`
	BytesToServer int64 `json:"bytes_to_server"`
	BytesToClient int64 `json:"bytes_to_client"`
	Messages      int64 `json:"messages"`
	Lost          int64 `json:"lost,omitempty"` // messages that the ring had forgotten
}

// Fault describes a fault's life.
type Fault struct {
	ID   string          `json:"id"`   // unique in the run: f1, f2, …
	Name string          `json:"name"` // of the kind: network.cut, fork, …
	Spec json.RawMessage `json:"spec,omitempty"`
	Note string          `json:"note,omitempty"`
}

// Log is one entry of the server's log. Event.PID is the backend that wrote it.
type Log struct {
	Severity        string `json:"severity"`
	SQLState        string `json:"sqlstate,omitempty"`
	Text            string `json:"text"`
	Database        string `json:"database,omitempty"`
	ApplicationName string `json:"application_name,omitempty"`
}

// Output is one line that the subject printed.
type Output struct {
	Stream string `json:"stream"` // stdout or stderr
	Text   string `json:"text"`
}

// Step is a named point that was reached.
type Step struct {
	Name string `json:"name"`
	Note string `json:"note,omitempty"`
}

// Recorder takes events in. Implementations are safe for concurrent use and
// never block on a slow reader.
type Recorder interface {
	// Record keeps e. Seq is assigned; At is stamped unless already set.
	Record(e Event)
	// Now is the recorder's clock: time since it began.
	Now() time.Duration
}
