package tap

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"

	"deadwire/harness/event"
)

func TestUnixSocketLeadsToTheServer(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "tap-")
	assert.NilError(t, err)
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of the test
	inodes := make(chan uint64, 1)
	b := newBench(t, func(c *Config) {
		c.SocketDir = dir
		c.OnUnix = func(_ event.SessionID, inode uint64) event.Opened {
			inodes <- inode
			return event.Opened{Opener: 7}
		}
	})
	config, err := pgx.ParseConfig(b.server.url(b.tap.Addr().String()))
	assert.NilError(t, err)
	config.Host = dir
	conn, err := pgx.ConnectConfig(b.ctx, config)
	assert.NilError(t, err)
	assert.Assert(t, <-inodes != 0)
	s := b.session()
	assert.Assert(t, !s.Client().IsValid())
	assert.NilError(t, conn.Close(b.ctx))
	assert.DeepEqual(t, manners(b.end(s))[:1], []string{"frontend terminate in idle"})
	opened := b.await("the opening", func(e event.Event) bool { return e.Kind == event.SessionOpened })
	assert.Equal(t, opened.Opened.Client, "unix:"+b.tap.SocketPath())
	assert.Equal(t, opened.Opened.Opener, 7)

	b.tap.Refuse(true)
	_, err = pgx.ConnectConfig(b.ctx, config)
	assert.Assert(t, err != nil)
	b.tap.Refuse(false)
	conn, err = pgx.ConnectConfig(b.ctx, config)
	assert.NilError(t, err)
	assert.NilError(t, conn.Close(b.ctx))
	assert.NilError(t, b.tap.Close(b.ctx))
	_, err = os.Stat(b.tap.SocketPath())
	assert.Assert(t, os.IsNotExist(err), "the socket is gone with the tap")
}

func TestOtherLoopbackLeadsToTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if len(b.tap.others) == 0 {
		t.Skip("no ::1 here, or its port is taken")
	}
	twin := b.tap.others[0].Addr().String()
	assert.Assert(t, strings.HasPrefix(twin, "[::1]:"), twin)
	conn, err := pgx.Connect(b.ctx, b.server.url(twin))
	assert.NilError(t, err)
	defer conn.Close(b.ctx) //nolint:errcheck // ends with the tap
	assert.Equal(t, b.session().Client().Addr().String(), "::1")
}

func TestSocketWithoutAFolderIsAnError(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Config{
		Place: event.Front, Upstream: "127.0.0.1:1", Recorder: event.NewJournal(nil, 0), SocketDir: "/nonexistent",
	})
	assert.ErrorContains(t, err, "listen on /nonexistent/.s.PGSQL.")
}
