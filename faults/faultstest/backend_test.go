package faultstest_test

import (
	"context"
	"strconv"

	"gotest.tools/v3/assert"

	"deadwire/faults/backend"
	"deadwire/faults/faultstest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// running is a client in the middle of a statement that ends only when it is told to.
type running struct{ err chan error }

// busy starts a long statement and waits until the server says that it runs.
func busy(s *stage) {
	conn := s.Connect()
	r := running{err: make(chan error, 1)}
	ctx, cancel := context.WithCancel(s.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := conn.Exec(ctx, "select pg_sleep(300)")
		r.err <- err
	}()
	s.T.Cleanup(func() { cancel(); <-done }) // before the session is closed: one goroutine at a time uses it
	s.Kept = r
	s.Until("the statement to run", func() bool {
		admin, err := s.Target.Admin(s.Ctx)
		assert.NilError(s.T, err)
		defer s.Close(admin)
		var n int
		err = admin.QueryRow(s.Ctx, `select count(*) from pg_stat_activity where datname = $1 and wait_event = 'PgSleep'`, s.Target.Database).Scan(&n)
		assert.NilError(s.T, err)
		return n == 1
	})
}

func backendPlays() []faultstest.Play {
	session := (*stage).Session
	return []faultstest.Play{
		{Fault: backend.Terminate{Session: "client"}, Before: session, Meet: func(s *stage) {
			loses(s, "57P01")
			s.AwaitBackends(0)
		}},
		{Fault: backend.Cancel{Session: "client"}, Before: busy, Meet: func(s *stage) {
			assert.Equal(s.T, sqlstate(<-s.Kept.(running).err), "57014")
			assert.Equal(s.T, s.Backends(), 1) // the session lives on
		}},
		{Fault: backend.Crash{Session: "client"}, OwnServer: true, Before: session, Meet: func(s *stage) {
			loses(s, "57P02")
		}},
		{Fault: backend.Restart{Mode: "fast"}, OwnServer: true, Before: session, Meet: func(s *stage) {
			loses(s, "57P01")
		}},
		{Fault: backend.Slots{}, OwnServer: true, Before: session, After: answers, Meet: func(s *stage) {
			_, err := s.Dial(faultstest.Patience)
			assert.Equal(s.T, sqlstate(err), "53300")
			answers(s) // who has a slot keeps it
		}},
		{Fault: backend.Slots{Free: 1}, OwnServer: true, Meet: func(s *stage) {
			s.Session() // takes the one that is free
			_, err := s.Dial(faultstest.Patience)
			assert.Equal(s.T, sqlstate(err), "53300")
		}},
		{Fault: backend.Lock{Table: "locked"}, Before: func(s *stage) {
			s.Session()
			_, err := s.Client().Exec(s.Ctx, "create table if not exists locked (n int)")
			assert.NilError(s.T, err)
		}, Meet: func(s *stage) {
			_, err := s.Client().Exec(s.Ctx, "set lock_timeout = '50ms'; select * from locked")
			assert.Equal(s.T, sqlstate(err), "55P03")
		}, After: func(s *stage) {
			_, err := s.Client().Exec(s.Ctx, "set lock_timeout = 0; select * from locked")
			assert.NilError(s.T, err)
		}},
	}
}

// told connects, does something that takes too long, and checks what it is told.
func told(want, statement string) func(*stage) {
	return func(s *stage) {
		s.Session()
		_, err := s.Client().Exec(s.Ctx, statement)
		assert.Equal(s.T, sqlstate(err), want, "%v", err)
	}
}

// endsIdle connects, does something, stays idle until the server has let go, and
// checks what it finds then.
func endsIdle(want, statement string) func(*stage) {
	return func(s *stage) {
		s.Session()
		if _, err := s.Client().Exec(s.Ctx, statement); err != nil { // a busy machine made us idle before
			says(s, err, want)
			return
		}
		s.AwaitBackends(0)
		loses(s, want)
	}
}

func limitPlays() []faultstest.Play {
	locked := func(s *stage) {
		admin, err := s.Target.Admin(s.Ctx)
		assert.NilError(s.T, err)
		defer s.Close(admin)
		for _, statement := range []string{"create table locked (n int)", "begin", "lock table locked"} {
			_, err = admin.Exec(s.Ctx, statement)
			assert.NilError(s.T, err)
		}
		told("55P03", "select * from locked")(s)
	}
	return []faultstest.Play{
		{Fault: backend.Timeout{Of: "statement", MS: 50}, Meet: told("57014", "select pg_sleep(300)")},
		{Fault: backend.Timeout{Of: "lock", MS: 50}, Meet: locked},
		{Fault: backend.Timeout{Of: "idle-session", MS: 300}, Meet: endsIdle("57P05", "select 1")},
		{Fault: backend.Timeout{Of: "idle-in-transaction", MS: 300}, Meet: endsIdle("25P03", "begin")},
		{Fault: backend.Timeout{Of: "transaction", MS: 300}, Meet: endsIdle("25P04", "begin")},
		{Fault: backend.ReadOnly{}, Meet: told("25006", "create table refused (n int)"), After: func(s *stage) {
			conn := s.Connect()
			text, err := s.Query(conn, faultstest.Patience, "show default_transaction_read_only")
			assert.NilError(s.T, err)
			assert.Equal(s.T, text, "off")
		}},
	}
}
