package pgtest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"deadwire/harness/pg"
)

// entries collects what a server logs.
type entries struct {
	mu   sync.Mutex
	list []pg.LogEntry
}

func (e *entries) add(entry pg.LogEntry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, entry)
}

func (e *entries) all() []pg.LogEntry {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

// await returns the first entry of a backend with a severity.
func (e *entries) await(t *testing.T, backend uint32, severity string) pg.LogEntry {
	t.Helper()
	var found pg.LogEntry
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		list := e.all()
		i := slices.IndexFunc(list, func(entry pg.LogEntry) bool {
			return entry.BackendPID == int(backend) && entry.Severity == severity
		})
		if i < 0 {
			return poll.Continue("no %s of backend %d among %d entries", severity, backend, len(list))
		}
		found = list[i]
		return poll.Success()
	}, poll.WithTimeout(patience))
	return found
}

func (s *suite) logsByBackend(t *testing.T) {
	server, log := s.start(t)
	conn, other := openMaintenance(t, server), openMaintenance(t, server)
	_, err := other.Exec(bounded(t), "SELECT 1/0")
	assert.ErrorContains(t, err, "division by zero")
	_, err = conn.Exec(bounded(t), `DO $do$ BEGIN RAISE EXCEPTION E'first line\nsecond line'
		USING DETAIL = 'what is known', HINT = 'what to do', ERRCODE = 'DW001'; END $do$ -- never-logged`)
	assert.ErrorContains(t, err, "first line")
	if server.Can(pg.ToReadLog) != nil {
		assert.ErrorIs(t, server.Can(pg.ToReadLog), pg.ErrNotOurs)
		assert.Equal(t, len(log.all()), 0)
		return
	}
	entry := log.await(t, conn.PgConn().PID(), "ERROR")
	assert.Equal(t, entry.SQLState, "DW001")
	assert.Equal(t, entry.Text, "first line\nsecond line\nDETAIL: what is known\nHINT: what to do")
	assert.Equal(t, entry.Database, server.Address().Database)
	assert.Equal(t, entry.ApplicationName, "pgtest")
	assert.Assert(t, !entry.Time.IsZero())
	assert.Equal(t, log.await(t, other.PgConn().PID(), "ERROR").SQLState, "22012")
	for _, entry := range log.all() {
		assert.Assert(t, !strings.Contains(entry.Text, "never-logged"), "a statement was logged: %s", entry.Text)
	}
}
