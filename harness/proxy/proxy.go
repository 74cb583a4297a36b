// Package proxy embeds Toxiproxy: it starts links on loopback ports, puts toxics on
// them, and serves Toxiproxy's own HTTP API. It owns the life of the links, not what
// the bytes mean (the taps around it), and it cannot reset a live session (tap can).
// Toxiproxy v2.12.0 is authoritative for how a toxic acts.
//
// Toxiproxy is used because its toxics are the vocabulary that people know, and its
// API lets their existing tools drive a link of ours.
//
// Three of its traits are kept out of reach here. Toxicity is always 1: below that it
// is drawn again for a live session whenever a neighbouring toxic changes. Unknown or
// absurd attributes are refused, which its own JSON decoding lets pass. And its dial
// to the upstream has no timeout, so the upstream should be a local tap.
//
// One trait stays: when the destination of a connection fails while a toxic still has
// data for it, the goroutine of that toxic waits for ever (measured with latency;
// toxics/latency.go sends without looking for an end). A connection that is quiet
// when it ends leaves nothing.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	zerologglobal "github.com/rs/zerolog/log"
)

// DefaultListen is where the HTTP API and each link listen: a free loopback port.
const DefaultListen = "127.0.0.1:0"

// Timeouts of the HTTP API, those of Toxiproxy's own server.
const (
	apiReadTimeout  = 15 * time.Second
	apiWriteTimeout = 30 * time.Second
)

// silence takes its voice from zerolog's global logger, on which Toxiproxy's
// bandwidth toxic traces each interruption to stderr, past the logger it was given.
var silence = sync.OnceFunc(func() { zerologglobal.Logger = zerolog.Nop() })

// Config says how a Proxy runs. The zero value is complete.
type Config struct {
	APIListen   string    // of the HTTP API; default DefaultListen
	AllowRemote bool      // permit APIListen to be other than loopback
	Log         io.Writer // Toxiproxy's own log, JSON lines; default: none
}

// Proxy is an embedded Toxiproxy.
type Proxy struct {
	server *toxiproxy.ApiServer
	http   *http.Server
	addr   netip.AddrPort

	serving  sync.WaitGroup
	serveErr error // read after serving has ended
}

// Start serves the HTTP API until Close. ctx governs the start only.
func Start(ctx context.Context, cfg Config) (*Proxy, error) {
	l, err := listen(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("start toxiproxy: %w", err)
	}
	silence()
	log := zerolog.Nop()
	if cfg.Log != nil {
		log = zerolog.New(cfg.Log).With().Timestamp().Logger()
	}
	p := &Proxy{
		server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), log),
		addr:   l.Addr().(*net.TCPAddr).AddrPort(),
	}
	p.http = &http.Server{Handler: p.server.Routes(), ReadTimeout: apiReadTimeout, WriteTimeout: apiWriteTimeout}
	p.serving.Go(func() {
		if err := p.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.serveErr = err
		}
	})
	return p, nil
}

func listen(ctx context.Context, cfg Config) (net.Listener, error) {
	if cfg.APIListen == "" {
		cfg.APIListen = DefaultListen
	}
	at, err := netip.ParseAddrPort(cfg.APIListen)
	if err != nil {
		return nil, fmt.Errorf("parse address of the API: %w", err)
	}
	if !at.Addr().IsLoopback() && !cfg.AllowRemote {
		return nil, fmt.Errorf("listen on %s: only loopback unless remote clients are allowed", at)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", at.String())
}

// APIAddr returns where Toxiproxy's HTTP API listens.
func (p *Proxy) APIAddr() netip.AddrPort { return p.addr }

// NewLink listens on a free loopback port and forwards to upstream, HOST:PORT. The
// name is unique, and the one under which the HTTP API shows the link. The error is
// ctx's, or of the system, or ErrLinkExists.
func (p *Proxy) NewLink(ctx context.Context, name, upstream string) (*Link, error) {
	if name == "" {
		return nil, errors.New("create link: it has no name")
	}
	if _, _, err := net.SplitHostPort(upstream); err != nil {
		return nil, fmt.Errorf("create link %s: upstream: %w", name, err)
	}
	tp := toxiproxy.NewProxy(p.server, name, DefaultListen, upstream)
	err := within(ctx, func() error { return p.server.Collection.Add(tp, true) })
	if errors.Is(err, toxiproxy.ErrProxyAlreadyExists) {
		err = errors.Join(ErrLinkExists, stop(ctx, tp))
	}
	if err != nil {
		return nil, fmt.Errorf("create link %s: %w", name, err)
	}
	return newLink(tp, p.server.Collection)
}

// Close stops all links, those made through the API too, and the API. Live sessions
// end with FIN. The error is ctx's when it ends first, or that of the API's server.
func (p *Proxy) Close(ctx context.Context) error {
	err := p.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, p.http.Close())
	}
	p.serving.Wait()
	err = errors.Join(err, p.serveErr, within(ctx, p.server.Collection.Clear))
	if err != nil {
		return fmt.Errorf("close toxiproxy: %w", err)
	}
	return nil
}

func stop(ctx context.Context, tp *toxiproxy.Proxy) error {
	return within(ctx, func() error {
		tp.Stop()
		return nil
	})
}

// within runs what Toxiproxy does without a context. When ctx ends first, the call is
// left to itself: it is bounded by the upstream's answer to a dial.
func within(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
