package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"deadwire/harness/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every byte with itself.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		assert.NilError(t, l.Close())
		all.Wait()
	})
	return l.Addr().String()
}

func start(t *testing.T) (context.Context, *proxy.Proxy) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	p, err := proxy.Start(ctx, proxy.Config{})
	assert.NilError(t, err)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		assert.NilError(t, p.Close(ctx))
		cancel()
	})
	return ctx, p
}

// newLink returns a link to an echo server.
func newLink(t *testing.T) (context.Context, *proxy.Link) {
	t.Helper()
	upstream := echo(t)
	ctx, p := start(t)
	l, err := p.NewLink(ctx, "db", upstream)
	assert.NilError(t, err)
	return ctx, l
}

func dial(t *testing.T, l *proxy.Link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	assert.NilError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	assert.NilError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c
}

// ping sends a word, and returns how long it took to come back.
func ping(c net.Conn, word string) (time.Duration, error) {
	began := time.Now()
	if _, err := io.WriteString(c, word); err != nil {
		return 0, err
	}
	back := make([]byte, len(word))
	_, err := io.ReadFull(c, back)
	if err == nil && string(back) != word {
		err = errors.New("came back as " + string(back))
	}
	return time.Since(began), err
}

func TestLatencyActsOnALiveConnectionAndHeals(t *testing.T) {
	t.Parallel()
	ctx, l := newLink(t)
	c := dial(t, l)
	_, err := ping(c, "hello")
	assert.NilError(t, err)
	name, err := l.AddToxic(proxy.Toxic{Stream: proxy.Downstream, Effect: proxy.Latency{LatencyMS: 200}})
	assert.NilError(t, err)
	assert.DeepEqual(t, l.Toxics(), []string{"latency_downstream"})
	took, err := ping(c, "hello")
	assert.NilError(t, err)
	assert.Assert(t, took >= 200*time.Millisecond, "took %v", took)

	assert.NilError(t, l.RemoveToxic(ctx, name))
	took, err = ping(c, "hello")
	assert.NilError(t, err)
	assert.Assert(t, took < 200*time.Millisecond, "took %v", took)
	assert.ErrorIs(t, l.RemoveToxic(ctx, name), proxy.ErrToxicNotFound)
}

func TestBlackholeSwallowsUntilRemoved(t *testing.T) {
	t.Parallel()
	ctx, l := newLink(t)
	c := dial(t, l)
	_, err := ping(c, "hello")
	assert.NilError(t, err)
	name, err := l.AddToxic(proxy.Toxic{Name: "hole", Stream: proxy.Upstream, Effect: proxy.Timeout{}})
	assert.NilError(t, err)
	assert.NilError(t, c.SetReadDeadline(time.Now().Add(150*time.Millisecond)))
	_, err = ping(c, "hello")
	var timeout net.Error
	assert.Assert(t, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
	assert.NilError(t, l.RemoveToxic(ctx, name))
	assert.NilError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}

func TestEffectsOnNewConnections(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		toxic proxy.Toxic
		check func(*testing.T, net.Conn)
	}{
		"reset": {proxy.Toxic{Stream: proxy.Downstream, Effect: proxy.ResetPeer{}}, func(t *testing.T, c net.Conn) {
			_, err := ping(c, "hello")
			assert.ErrorIs(t, err, syscall.ECONNRESET)
		}},
		"limit": {proxy.Toxic{Stream: proxy.Downstream, Effect: proxy.LimitData{Bytes: 3}}, func(t *testing.T, c net.Conn) {
			_, err := io.WriteString(c, "hello")
			assert.NilError(t, err)
			got, err := io.ReadAll(c)
			assert.NilError(t, err)
			assert.Equal(t, string(got), "hel")
		}},
		"slicer": {proxy.Toxic{Stream: proxy.Upstream, Effect: proxy.Slicer{AverageBytes: 10, VariationBytes: 3}}, func(t *testing.T, c net.Conn) {
			_, err := ping(c, string(bytes.Repeat([]byte("x"), 500)))
			assert.NilError(t, err)
		}},
		"bandwidth": {proxy.Toxic{Stream: proxy.Upstream, Effect: proxy.Bandwidth{RateKBs: 10}}, func(t *testing.T, c net.Conn) {
			took, err := ping(c, string(bytes.Repeat([]byte("x"), 2000)))
			assert.NilError(t, err)
			assert.Assert(t, took >= 150*time.Millisecond, "took %v", took)
		}},
		"timeout": {proxy.Toxic{Stream: proxy.Upstream, Effect: proxy.Timeout{TimeoutMS: 50}}, func(t *testing.T, c net.Conn) {
			_, err := ping(c, "hello")
			assert.ErrorIs(t, err, io.EOF)
		}},
		"slow close": {proxy.Toxic{Stream: proxy.Upstream, Effect: proxy.SlowClose{DelayMS: 150}}, func(t *testing.T, c net.Conn) {
			began := time.Now()
			assert.NilError(t, c.(*net.TCPConn).CloseWrite())
			_, err := c.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.EOF)
			assert.Assert(t, time.Since(began) >= 150*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, l := newLink(t)
			_, err := l.AddToxic(tc.toxic)
			assert.NilError(t, err)
			tc.check(t, dial(t, l))
		})
	}
}

func TestInvalidToxicsNeverReachToxiproxy(t *testing.T) {
	t.Parallel()
	_, l := newLink(t)
	for want, toxic := range map[string]proxy.Toxic{
		"no effect":             {Stream: proxy.Upstream},
		"neither upstream":      {Effect: proxy.Timeout{}},
		"timeout is negative":   {Stream: proxy.Upstream, Effect: proxy.Timeout{TimeoutMS: -1}},
		"more than the latency": {Stream: proxy.Upstream, Effect: proxy.Latency{LatencyMS: 1, JitterMS: 2}},
		"above 0":               {Stream: proxy.Upstream, Effect: proxy.Slicer{}},
		"below the average":     {Stream: proxy.Upstream, Effect: proxy.Slicer{AverageBytes: 4, VariationBytes: 4}},
		"rate is negative":      {Stream: proxy.Downstream, Effect: proxy.Bandwidth{RateKBs: -3}},
	} {
		_, err := l.AddToxic(toxic)
		assert.ErrorContains(t, err, want)
	}
	assert.Equal(t, len(l.Toxics()), 0)
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	ctx, p := start(t)
	l, err := p.NewLink(ctx, "db", upstream)
	assert.NilError(t, err)
	_, err = p.NewLink(ctx, "db", upstream)
	assert.ErrorIs(t, err, proxy.ErrLinkExists)
	toxic := proxy.Toxic{Name: "one", Stream: proxy.Upstream, Effect: proxy.Timeout{}}
	_, err = l.AddToxic(toxic)
	assert.NilError(t, err)
	_, err = l.AddToxic(toxic)
	assert.ErrorIs(t, err, proxy.ErrToxicExists)
}

func TestDisabledLinkRefusesAndComesBackOnItsPort(t *testing.T) {
	t.Parallel()
	ctx, l := newLink(t)
	c := dial(t, l)
	_, err := ping(c, "hello")
	assert.NilError(t, err)
	for range 2 { // twice is as good as once
		assert.NilError(t, l.SetEnabled(ctx, false))
	}
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	_, err = net.Dial("tcp", l.Addr().String())
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	for range 2 {
		assert.NilError(t, l.SetEnabled(ctx, true))
	}
	_, err = ping(dial(t, l), "hello")
	assert.NilError(t, err)
}

func TestHTTPAPIShowsOurLinks(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	ctx, p := start(t)
	_, err := p.NewLink(ctx, "db", upstream)
	assert.NilError(t, err)
	resp, err := http.Get("http://" + p.APIAddr().String() + "/proxies")
	assert.NilError(t, err)
	defer resp.Body.Close()
	var links map[string]struct{ Upstream string }
	assert.NilError(t, json.NewDecoder(resp.Body).Decode(&links))
	assert.Equal(t, links["db"].Upstream, upstream)
}

func TestOnlyLoopbackUnlessAllowed(t *testing.T) {
	t.Parallel()
	_, err := proxy.Start(context.Background(), proxy.Config{APIListen: "0.0.0.0:0"})
	assert.ErrorContains(t, err, "only loopback")
}

// A link must be quiet when it is closed to leave no goroutine (see the package doc):
// every byte that was sent has come back here.
func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p, err := proxy.Start(ctx, proxy.Config{})
	assert.NilError(t, err)
	l, err := p.NewLink(ctx, "db", upstream)
	assert.NilError(t, err)
	_, err = l.AddToxic(proxy.Toxic{Stream: proxy.Downstream, Effect: proxy.Latency{LatencyMS: 20}})
	assert.NilError(t, err)
	c := dial(t, l)
	for range 20 {
		_, err = ping(c, string(bytes.Repeat([]byte("x"), 10_000)))
		assert.NilError(t, err)
	}
	assert.NilError(t, p.Close(ctx))
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	for _, addr := range []string{l.Addr().String(), p.APIAddr().String()} {
		_, err = net.Dial("tcp", addr)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
}

func TestClosedLinkIsForgotten(t *testing.T) {
	t.Parallel()
	ctx, p := start(t)
	first, err := p.NewLink(ctx, "lane", echo(t))
	assert.NilError(t, err)
	conn, err := net.Dial("tcp", first.Addr().String())
	assert.NilError(t, err)
	_, err = conn.Write([]byte("x"))
	assert.NilError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	assert.NilError(t, err)

	assert.NilError(t, first.Close(ctx))
	_, err = conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	assert.NilError(t, conn.Close())
	_, err = net.Dial("tcp", first.Addr().String())
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)

	second, err := p.NewLink(ctx, "lane", echo(t))
	assert.NilError(t, err, "the name is free again")
	assert.NilError(t, first.Close(ctx), "closing twice is no error, and spares the new link")
	conn, err = net.Dial("tcp", second.Addr().String())
	assert.NilError(t, err)
	assert.NilError(t, conn.Close())
}
