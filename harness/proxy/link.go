package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
)

// Errors that a caller may want to tell apart.
var (
	ErrLinkExists    = errors.New("a link with this name exists")
	ErrToxicExists   = errors.New("a toxic with this name exists")
	ErrToxicNotFound = errors.New("no toxic with this name")
)

// Link is one listening port and what happens to the bytes on the way to its upstream.
type Link struct {
	proxy *toxiproxy.Proxy
	all   *toxiproxy.ProxyCollection
	addr  netip.AddrPort
}

func newLink(tp *toxiproxy.Proxy, all *toxiproxy.ProxyCollection) (*Link, error) {
	addr, err := netip.ParseAddrPort(tp.Listen) // the bound address, once started
	if err != nil {
		return nil, fmt.Errorf("create link %s: %w", tp.Name, err)
	}
	return &Link{proxy: tp, all: all, addr: addr}, nil
}

// Name returns the link's name.
func (l *Link) Name() string { return l.proxy.Name }

// Addr returns where the link listens. It stays the same while the link is disabled.
func (l *Link) Addr() netip.AddrPort { return l.addr }

// AddToxic puts a toxic at the end of its stream's chain, for live and later
// connections, and returns its name. Toxiproxy is asked only with what is valid.
func (l *Link) AddToxic(t Toxic) (name string, err error) {
	body, name, err := t.encode()
	if err != nil {
		return "", fmt.Errorf("add toxic to link %s: %w", l.Name(), err)
	}
	_, err = l.proxy.Toxics.AddToxicJson(bytes.NewReader(body))
	if errors.Is(err, toxiproxy.ErrToxicAlreadyExists) {
		err = ErrToxicExists
	}
	if err != nil {
		return "", fmt.Errorf("add toxic %s to link %s: %w", name, l.Name(), err)
	}
	return name, nil
}

// RemoveToxic takes a toxic away. What a Latency still holds is delivered first;
// connections that a Timeout silenced are closed, since bytes of theirs are lost. The
// error is ctx's, or ErrToxicNotFound, which a heal may take for success.
func (l *Link) RemoveToxic(ctx context.Context, name string) error {
	err := within(ctx, func() error { return l.proxy.Toxics.RemoveToxic(ctx, name) })
	if errors.Is(err, toxiproxy.ErrToxicNotFound) {
		err = ErrToxicNotFound
	}
	if err != nil {
		return fmt.Errorf("remove toxic %s from link %s: %w", name, l.Name(), err)
	}
	return nil
}

// Toxics returns the names of the toxics that are in place.
func (l *Link) Toxics() []string {
	var names []string
	for _, t := range l.proxy.Toxics.GetToxicArray() {
		var named struct {
			Name string `json:"name"`
		}
		if body, err := json.Marshal(t); err == nil && json.Unmarshal(body, &named) == nil {
			names = append(names, named.Name)
		}
	}
	return names
}

// SetEnabled closes the port and ends all connections with FIN, or listens on the
// same port again. Setting what is already so does nothing. The error is ctx's, or
// that the port was taken meanwhile.
func (l *Link) SetEnabled(ctx context.Context, on bool) error {
	if !on {
		return stop(ctx, l.proxy)
	}
	err := within(ctx, l.proxy.Start)
	if err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		return fmt.Errorf("enable link %s: %w", l.Name(), err)
	}
	return nil
}

// Close ends the link's connections with FIN, gives up its port and frees its name.
// It is repeatable, and leaves alone what was made under the name meanwhile. The
// error is ctx's.
func (l *Link) Close(ctx context.Context) error {
	err := within(ctx, func() error {
		l.proxy.Stop() // before Remove, which keeps all other links waiting while it stops one
		if now, err := l.all.Get(l.Name()); err != nil || now != l.proxy {
			return nil // closed before, or deleted through the API
		}
		return l.all.Remove(l.Name())
	})
	if err != nil && !errors.Is(err, toxiproxy.ErrProxyNotFound) {
		return fmt.Errorf("close link %s: %w", l.Name(), err)
	}
	return nil
}
