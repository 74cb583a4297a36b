package tap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"deadwire/harness/event"
)

// protocolALPN is the name of the protocol in TLS ("SSL Session Encryption" of the
// protocol document).
const protocolALPN = "postgresql"

// greetMax is how long a client may take until its start-up packet begins; the
// default of PostgreSQL's authentication_timeout.
const greetMax = time.Minute

// errNoALPN refuses direct TLS as PostgreSQL 17 does.
var errNoALPN = errors.New("direct TLS without ALPN: the client did not name the protocol " + protocolALPN)

// ahead is a leg of which some bytes have been read already.
type ahead struct {
	leg
	bytes []byte
	ended bool // the peer sent FIN; set by the reader
}

func (a *ahead) Read(b []byte) (int, error) {
	if len(a.bytes) > 0 {
		n := copy(b, a.bytes)
		a.bytes = a.bytes[n:]
		return n, nil
	}
	n, err := a.leg.Read(b)
	a.ended = a.ended || errors.Is(err, io.EOF)
	return n, err
}

// SetLinger implements lingerer where the socket does.
func (a *ahead) SetLinger(seconds int) error {
	if l, ok := a.leg.(lingerer); ok {
		return l.SetLinger(seconds)
	}
	return nil
}

// secure is a leg with TLS on it. Its CloseWrite is the socket's: FIN without
// close_notify, as from a network or a killed process. part says close_notify first.
type secure struct {
	*ahead
	conn *tls.Conn
}

// Read ends with io.EOF after FIN, wherever in a record, and after close_notify.
func (c *secure) Read(b []byte) (int, error) {
	n, err := c.conn.Read(b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

func (c *secure) Write(b []byte) (int, error) { return c.conn.Write(b) }

// part sends the close_notify of an orderly end over TLS; over plain text, nothing.
func part(l leg) {
	if c, ok := l.(*secure); ok {
		_ = c.conn.CloseWrite() // a peer that is gone needs none
	}
}

// notified reports whether a leg, whose reading has ended with io.EOF, ended with
// close_notify and not with FIN. Somebody else may still hold its socket.
func notified(l leg) bool {
	c, ok := l.(*secure)
	return ok && !c.ended
}

// greet takes in a client's wish for TLS, before the next hop is dialled: who says
// nothing costs the server nothing. It reports whether the session goes on.
func (s *Session) greet() bool {
	_ = s.front.SetDeadline(time.Now().Add(greetMax)) // fails only on a leg that was cut, which reading finds
	front, err := s.negotiate()
	if err != nil {
		s.unwelcome(err)
		return false
	}
	_ = front.SetDeadline(time.Time{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.front = front
	return !s.severed
}

// negotiate answers requests for encryption up to the first packet that is none.
func (s *Session) negotiate() (leg, error) {
	for {
		head := make([]byte, 8) // no start-up packet is shorter
		n, err := io.ReadFull(s.front, head)
		first := &ahead{leg: s.front, bytes: head[:n]}
		code := uint32At(head, 4)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return first, nil // the relay sees it once more, and knows what to do
		case err != nil:
			return nil, err
		case head[0] == recordHandshake && head[1] == majorThree:
			return s.handshake(first, true)
		case uint32At(head, 0) != 8:
			return first, nil
		case code == codeSSL:
			if err := s.agree("SSLRequest", 'S'); err != nil {
				return nil, err
			}
			return s.handshake(&ahead{leg: s.front}, false)
		case code == codeGSSENC:
			if err := s.agree("GSSENCRequest", 'N'); err != nil {
				return nil, err
			}
		default:
			return first, nil
		}
	}
}

func (s *Session) agree(request string, answer byte) error {
	s.mu.Lock()
	s.note(s.tap.cfg.Recorder.Now(), event.Message{From: event.Frontend, Type: request, Length: 8})
	s.mu.Unlock()
	_, err := s.front.Write([]byte{answer})
	return err
}

// handshakeError is why TLS did not come about.
type handshakeError struct{ cause error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.cause.Error() }
func (e *handshakeError) Unwrap() error { return e.cause }

func (s *Session) handshake(plain *ahead, direct bool) (leg, error) {
	conn := tls.Server(plain, s.tap.secrets)
	if err := conn.HandshakeContext(s.tap.dialing); err != nil {
		return nil, &handshakeError{err}
	}
	if direct && conn.ConnectionState().NegotiatedProtocol == "" {
		return nil, &handshakeError{errNoALPN}
	}
	return &secure{ahead: plain, conn: conn}, nil
}

// unwelcome ends a session that never got to its start-up packet.
func (s *Session) unwelcome(err error) {
	ending := event.Closing{From: event.Frontend, Manner: event.RST, Text: err.Error()}
	var failed *handshakeError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		ending.Text = ""
	case errors.As(err, &timeout) && timeout.Timeout():
		ending.Manner, ending.Text = event.Silence, fmt.Sprintf("no start-up packet within %s", greetMax)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		ending.Manner = event.FIN
	case errors.As(err, &failed):
		ending.Manner = event.Refused
	}
	s.mu.Lock()
	if !s.severed {
		s.closing(ending)
	}
	s.mu.Unlock()
	_ = closeFIN(s.front) // the client may be gone as well
}

// request asks the next hop for TLS, as a client with sslmode=require does.
func request(ctx context.Context, plain leg, cfg *tls.Config) (leg, error) {
	cfg = cfg.Clone()
	if len(cfg.NextProtos) == 0 {
		cfg.NextProtos = []string{protocolALPN}
	}
	stop := context.AfterFunc(ctx, func() { _ = plain.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := plain.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		return nil, fmt.Errorf("ask for TLS: %w", err)
	}
	var answer [1]byte
	if _, err := io.ReadFull(plain, answer[:]); err != nil {
		return nil, fmt.Errorf("ask for TLS: %w", err)
	}
	if answer[0] != 'S' {
		return nil, errors.New("ask for TLS: the server offers none")
	}
	below := &ahead{leg: plain}
	conn := tls.Client(below, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, &handshakeError{err}
	}
	return &secure{ahead: below, conn: conn}, nil
}

// outOfTLS reports whether reading ended because TLS itself gave up: a record that
// does not authenticate, or an alert of the peer. crypto/tls marks both in the
// operation of a net.OpError.
func outOfTLS(err error) bool {
	var op *net.OpError
	var header tls.RecordHeaderError
	return errors.As(err, &op) && (op.Op == "local error" || op.Op == "remote error") || errors.As(err, &header)
}
