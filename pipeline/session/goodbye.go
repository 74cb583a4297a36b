package session

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"time"
)

// goodbyeMax bounds the wait for the server's end of a session that we ended.
const goodbyeMax = time.Second

// goodbye says Terminate and waits until the server hung up, which it does after it
// gave back the session's locks. A server that is gone or stalled is not an error:
// our own end is what was asked for.
func (s *Session) goodbye(ctx context.Context) error {
	hijacked, err := s.conn.PgConn().Hijack()
	if err != nil { // in the middle of something: pgx knows how to cut it off
		return s.conn.Close(ctx)
	}
	until := time.Now().Add(goodbyeMax)
	if at, bounded := ctx.Deadline(); bounded && at.Before(until) {
		until = at
	}
	_ = hijacked.Conn.SetDeadline(until) // a socket that takes no deadline fails the write
	_, err = hijacked.Conn.Write([]byte{'X', 0, 0, 0, 4})
	if err == nil {
		halfClose(hijacked.Conn)
		_, _ = io.Copy(io.Discard, hijacked.Conn) // its end, or the deadline's
	}
	return hijacked.Conn.Close()
}

// halfClose ends what we send, so that a proxy between sees a client that left, and
// leaves open what the server may still say.
func halfClose(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		_ = secured.CloseWrite()
		conn = secured.NetConn()
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the full close follows anyway
	}
}
