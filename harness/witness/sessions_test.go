package witness

import (
	"testing"
	"time"

	"deadwire/harness/event"

	"gotest.tools/v3/assert"
)

func TestRegistryTellsNewsAboutHolders(t *testing.T) {
	t.Parallel()
	id := event.SessionID{Place: event.Front, N: 1}
	for name, tc := range map[string]struct {
		opener int
		seen   [][]int
		news   []bool
	}{
		"the opener alone":               {10, [][]int{{10}, {10}}, []bool{false, false}},
		"the opener let go at the end":   {10, [][]int{{}}, []bool{false}},
		"a child came and went":          {10, [][]int{{10, 11}, {10, 11}, {10}}, []bool{true, false, true}},
		"handed over":                    {10, [][]int{{10, 11}, {11}, {}}, []bool{true, true, true}},
		"handed over at once":            {10, [][]int{{11}}, []bool{true}},
		"an heir comes to sight late":    {10, [][]int{{}, {11}, {}}, []bool{false, true, true}},
		"met later, by looking":          {0, [][]int{{10}, {10, 11}}, []bool{false, true}},
		"met later, when already shared": {0, [][]int{{10, 11}}, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry()
			var first []int
			if tc.opener != 0 {
				first = []int{tc.opener}
			}
			r.add(id, 77, tc.opener, first)
			for n, pids := range tc.seen {
				_, _, changed := r.observe(77, pids)
				assert.Equal(t, changed, tc.news[n], "look %d", n)
			}
		})
	}
}

func TestRegistryKeepsANewSessionOnAnOldInode(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	older, newer := event.SessionID{Place: event.Front, N: 1}, event.SessionID{Place: event.Front, N: 2}
	r.add(older, 77, 1, []int{1})
	r.add(newer, 77, 2, []int{2})
	r.remove(older)
	id, opener, known := r.session(77)
	assert.Assert(t, known)
	assert.Equal(t, id, newer)
	assert.Equal(t, opener, 2)
	r.remove(newer)
	r.remove(newer)
	assert.Equal(t, len(r.inodes()), 0)
}

func TestRegistryForgetsTheOldestConnects(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for inode := range uint64(openersMax + 10) {
		r.connected(inode, int(inode)+1)
	}
	assert.Equal(t, len(r.openers), openersMax)
	assert.Equal(t, r.opener(9), 0)
	assert.Equal(t, r.opener(10), 11)
}

// Of thousands of processes that exit together each would look at all the others.
func TestOnlyACostlyLookIsSparedForAWhile(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.add(event.SessionID{Place: event.Front, N: 1}, 7, 10, []int{10})
	assert.Assert(t, !r.spared(7), "nobody has looked")
	r.lookedAt(7, time.Millisecond)
	assert.Assert(t, !r.spared(7), "it costs nothing")
	r.lookedAt(7, time.Hour)
	assert.Assert(t, r.spared(7))
	assert.Assert(t, !r.spared(8), "another socket")
}
