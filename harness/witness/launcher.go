package witness

import "errors"

// launcherVariable tells our own binary that it was started as the launcher; its
// value is the descriptor of the socket to the supervisor. The target never sees it.
const launcherVariable = "DEADWIRE_LAUNCHER"

// exit codes of a launcher that could not become its target, as shells have them
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// order is what the supervisor tells the launcher, as one line of JSON.
type order struct {
	Path  string     `json:"path"`
	Args  []string   `json:"args"`
	Env   []string   `json:"env"`
	Sends SendFilter `json:"sends"`
	TLS   bool       `json:"tls"`
	// RefuseRing denies io_uring.
	RefuseRing bool `json:"refuse_ring"`
	Parent     int  `json:"parent"` // the supervisor's pid
}

// LauncherName is the command line of a process that has not become its target yet.
const LauncherName = "deadwire-launcher"

// reply is what the launcher answers. The first one carries the listener with
// it, unless Error says why there is none; a second one comes only if the
// target could not be executed.
type reply struct {
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"`
}

// errMainNotCalled protects from a binary that would start itself for ever.
var errMainNotCalled = errors.New("this process was started as a launcher, but its main does not begin with witness.Main")
