package witness

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"deadwire/harness/event"
)

// callTable says what to do about a system call number.
type callTable map[int32]func(*caller) (int64, bool)

func newCallTable() callTable {
	n, _ := numbersOf(runtime.GOARCH)
	return callTable{
		int32(n.sendto):    (*caller).sendto,
		int32(n.write):     (*caller).sendto, // same first three arguments
		int32(n.writev):    (*caller).writev,
		int32(n.sendmsg):   (*caller).sendmsg,
		int32(n.sendmmsg):  (*caller).sendmmsg,
		int32(n.connect):   (*caller).connect,
		int32(n.shutdown):  (*caller).shutdown,
		int32(n.execve):    (*caller).exec,
		int32(n.execveat):  (*caller).exec,
		int32(n.exitGroup): (*caller).exit,
	}
}

// caller is a thread of the subject that stands still in a call.
type caller struct {
	*supervisor
	notification
	at     time.Duration
	pid    int
	memory *os.File // /proc/TID/mem: process_vm_readv is forbidden in many containers
}

func (s *supervisor) newCaller(n notification, at time.Duration) *caller {
	return &caller{supervisor: s, notification: n, at: at}
}

// look returns the value to answer with, if the call is not to be carried out
// by the caller; below zero it is an error number.
func (c *caller) look() (value int64, suppressed bool) {
	pid, err := threadGroup(int(c.TID))
	if err != nil {
		return 0, false // killed in the meantime
	}
	c.pid = pid
	c.tree.Observe(pid)
	act, known := c.table[c.Number]
	if !known {
		return 0, false
	}
	defer c.closeMemory()
	return act(c)
}

func (c *caller) fd() int { return int(int32(c.Args[0])) }

func (c *caller) read(address uint64, into []byte) error {
	if c.memory == nil {
		memory, err := os.Open("/proc/" + strconv.FormatUint(uint64(c.TID), 10) + "/mem")
		if err != nil {
			return fmt.Errorf("read memory of the subject: %w", err)
		}
		c.memory = memory
	}
	_, err := c.memory.ReadAt(into, int64(address))
	return err
}

func (c *caller) closeMemory() {
	if c.memory != nil {
		_ = c.memory.Close()
	}
}

func (c *caller) connect() (int64, bool) {
	raw := make([]byte, min(c.Args[2], sockaddrMax))
	inode, isSocket := socketInode(int(c.TID), c.fd())
	if !isSocket || c.read(c.Args[1], raw) != nil {
		return 0, false
	}
	remote, named := parseSockaddr(raw)
	if !named || !c.valid(c.ID) {
		return 0, false
	}
	c.witness.sessions.connected(inode, c.pid)
	call := event.Call{Name: event.CallConnect, FD: c.fd(), Inode: inode, Remote: remote}
	if c.witness.options.Redirect != nil {
		call.Redirected = c.witness.options.Redirect(remote)
	}
	c.record(call)
	if call.Redirected == "" {
		return 0, false
	}
	return c.redirected(raw, call.Redirected)
}

func (c *caller) shutdown() (int64, bool) {
	inode, isSocket := socketInode(int(c.TID), c.fd())
	if !isSocket {
		return 0, false
	}
	if _, _, known := c.witness.sessions.session(inode); !known {
		return 0, false
	}
	holders := c.witness.holders(inode)
	if !c.valid(c.ID) {
		return 0, false
	}
	return 0, c.record(event.Call{Name: event.CallShutdown, FD: c.fd(), Inode: inode, Holders: holders})
}

func (c *caller) exec() (int64, bool) {
	c.tree.Execing(c.pid)
	c.witness.softwares.forget(c.pid)
	c.witness.poll.execing()
	return 0, false
}

func (c *caller) exit() (int64, bool) {
	code := int(c.Args[0] & 0xff)
	c.tree.Exiting(c.pid, code)
	c.witness.softwares.forget(c.pid)
	open := c.witness.sessions.inodes()
	if len(open) > 0 {
		// Whoever holds one besides will keep it alive; and a child may have come and
		// be about to go between two looks of the poller.
		for inode := range socketsOf(c.pid) {
			if _, isSession := open[inode]; isSession && !c.witness.sessions.spared(inode) {
				c.witness.holders(inode)
			}
		}
	}
	if c.valid(c.ID) {
		c.record(event.Call{Name: event.CallExit, FD: -1, Code: code})
	}
	return 0, false
}

// record writes the call down, after it was asked about. It returns true if it
// is to be suppressed.
func (c *caller) record(call event.Call) bool {
	if int(c.TID) != c.pid {
		call.TID = int(c.TID)
	}
	id, opener, _ := c.witness.sessions.session(call.Inode)
	question := Question{PID: c.pid, Session: id, Opener: opener, Call: call}
	decide := c.witness.options.Decide
	suppressible := call.Name == event.CallSend || call.Name == event.CallShutdown
	if decide != nil && call.Name != event.CallExit {
		call.Blocked = decide(question) == Suppress && suppressible
	}
	if !call.Blocked && saysGoodbye(call) && !inherits(question) {
		c.witness.sessions.ends(call.Inode)
	}
	c.witness.options.Recorder.Record(event.Event{
		At: c.at, Kind: event.ProcessCalled, PID: c.pid, Session: id, Call: &call,
	})
	return call.Blocked
}
