package witness

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"deadwire/harness/event"
)

// openersMax bounds the memory of connects whose session was never registered,
// such as those to a name server.
const openersMax = 4096

// threadsMax bounds how many threads of one session are told apart.
const threadsMax = 16

// registry links the inodes of the subject's sockets to sessions.
type registry struct {
	mu      sync.Mutex
	byInode map[uint64]*session
	byID    map[event.SessionID]*session
	openers map[uint64]int
	order   []uint64 // inodes in openers, oldest first
}

type session struct {
	id      event.SessionID
	inode   uint64
	opener  int
	holders []int         // the set as last recorded or taken for granted
	sender  int           // who sent last, as far as sends are looked at
	asked   bool          // that sender has sent more than start-up messages
	threads []int         // of any process, that were seen to ask; bounded
	torn    []byte        // the beginning of a Terminate that came in pieces
	lawful  bool          // who may end it was seen to do so
	looked  time.Time     // when all processes had been looked at for its holders
	took    time.Duration // by that look
}

func newRegistry() registry {
	return registry{
		byInode: map[uint64]*session{},
		byID:    map[event.SessionID]*session{},
		openers: map[uint64]int{},
	}
}

// connected remembers which process called connect for a socket.
func (r *registry) connected(inode uint64, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.openers[inode]; !known {
		r.order = append(r.order, inode)
	}
	r.openers[inode] = pid
	for len(r.order) > openersMax {
		delete(r.openers, r.order[0])
		r.order = r.order[1:]
	}
}

func (r *registry) opener(inode uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.openers[inode]
}

func (r *registry) add(id event.SessionID, inode uint64, opener int, holders []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &session{id: id, inode: inode, opener: opener, holders: holders}
	r.byInode[inode], r.byID[id] = s, s
}

func (r *registry) remove(id event.SessionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byID[id]
	if s == nil {
		return
	}
	delete(r.byID, id)
	// The kernel may have given the number to a newer session already.
	if r.byInode[s.inode] == s {
		delete(r.byInode, s.inode)
	}
}

// session returns the session behind an inode and its opener.
func (r *registry) session(inode uint64) (id event.SessionID, opener int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.byInode[inode]; s != nil {
		return s.id, s.opener, true
	}
	return event.SessionID{}, r.openers[inode], false
}

// sent notes who sends on a session, and says whether that is news: another
// process than the time before, its first message beyond start-up, or a thread's first.
func (r *registry) sent(inode uint64, pid, tid int, asks bool) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byInode[inode]
	if s == nil {
		return false
	}
	if news = s.sender != pid; news {
		s.sender, s.asked = pid, false
	}
	if asks && !s.asked {
		s.asked, news = true, true
	}
	if asks && len(s.threads) < threadsMax && !slices.Contains(s.threads, tid) {
		s.threads, news = append(s.threads, tid), true
	}
	return news
}

// piece takes a send that is too short for a message. It returns true if with it
// a Terminate is complete that was sent in pieces.
func (r *registry) piece(inode uint64, sent []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byInode[inode]
	if s == nil {
		return false
	}
	s.torn = append(s.torn, sent...)
	if !bytes.HasPrefix(terminateMessage, s.torn) {
		s.torn = nil
	}
	whole := len(s.torn) == len(terminateMessage)
	if whole {
		s.torn = nil
	}
	return whole
}

func (r *registry) inode(id event.SessionID) (uint64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.byID[id]; s != nil {
		return s.inode, true
	}
	return 0, false
}

// lookedAt notes a look at all processes for the holders of an inode.
func (r *registry) lookedAt(inode uint64, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.byInode[inode]; s != nil {
		s.looked, s.took = time.Now(), took
	}
}

// spared reports whether another look at an inode's holders would cost too much so
// soon: of thousands of processes that exit together each one would look at all.
func (r *registry) spared(inode uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byInode[inode]
	return s != nil && s.took > cheapLook && time.Since(s.looked) < s.took*shareHolders
}

// cheapLook is how long a look may take so that it is never spared: that of a few
// hundred processes.
const cheapLook = 20 * time.Millisecond

// ends notes that somebody ends the session behind an inode who may.
func (r *registry) ends(inode uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.byInode[inode]; s != nil {
		s.lawful = true
	}
}

func (r *registry) lawful(id event.SessionID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byID[id]
	return s != nil && s.lawful
}

// inodes returns the sockets of all open sessions.
func (r *registry) inodes() map[uint64]struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := make(map[uint64]struct{}, len(r.byInode))
	for inode := range maps.Keys(r.byInode) {
		set[inode] = struct{}{}
	}
	return set
}

// observe takes a set of holders as seen, and says whether that is news. A sole
// opener that let go is not: the session's end will say so itself.
func (r *registry) observe(inode uint64, pids []int) (id event.SessionID, opener int, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byInode[inode]
	if s == nil || slices.Equal(s.holders, pids) {
		return event.SessionID{}, 0, false
	}
	alone := len(pids) == 0 && len(s.holders) == 1 && s.holders[0] == s.opener
	// Only an unknown opener is learned from a first look. A holder that comes to
	// sight after a known one has let go is an heir, and news.
	first := s.opener == 0 && len(s.holders) == 0 && len(pids) == 1
	s.holders = slices.Clone(pids)
	if s.opener == 0 && first {
		s.opener = pids[0]
	}
	return s.id, s.opener, !alone && !first
}
