package tap

import (
	"encoding/binary"

	"deadwire/harness/event"
)

// framing is how the next bytes of a stream are cut into frames.
type framing uint8

const (
	packets  framing = iota // start-up packets: a length, no type
	answer                  // one byte that answers SSLRequest
	messages                // a type byte and a length
	tlsUnits                // TLS records
	raw                     // nothing more can be told apart
)

// decoder cuts one direction of a session into frames. It is fed with whatever the
// socket gave, keeps at most the beginning of one frame, and allocates only when a
// frame is split over two reads for the first time.
type decoder struct {
	side    event.Side
	framing framing
	tls     bool   // TLS is passed through, also without SSLRequest
	bad     string // why the stream went raw, for the one who records it

	head [5]byte // of the frame in progress
	have int     // bytes of head that are there
	open bool    // the head is complete, the body is coming
	left int     // bytes of the body still to come
	keep int     // bytes of the body to look at
	kept []byte  // the body's beginning, when it came in pieces

	// The newest frame. body is valid until the next call of feed.
	typ    byte
	length int
	body   []byte
}

// feed consumes bytes up to the end of one frame at most. It says how many, and
// whether a frame is complete.
func (d *decoder) feed(b []byte) (n int, done bool) {
	if d.framing == raw {
		return len(b), false
	}
	if !d.open {
		size := d.headSize()
		n = copy(d.head[d.have:size], b)
		d.have += n
		if d.have < size {
			return n, false
		}
		if d.begin(); !d.open {
			return n, false
		}
	}
	m := d.take(b[n:])
	return n + m, d.left == 0
}

// started reports whether part of a frame has been consumed.
func (d *decoder) started() bool { return d.open || d.have > 0 }

func (d *decoder) headSize() int {
	switch d.framing {
	case answer:
		return 1
	case packets:
		return 4
	default:
		return 5
	}
}

// begin reads a complete head.
func (d *decoder) begin() {
	d.open, d.kept, d.body = true, d.kept[:0], nil
	switch d.framing {
	case answer:
		d.beginAnswer()
	case packets:
		d.beginPacket()
	case tlsUnits:
		d.beginRecord()
	default:
		d.beginMessage()
	}
}

// beginAnswer reads the answer to SSLRequest: S, N, or the first byte of an
// ErrorResponse, which is what a server does that never heard of TLS.
func (d *decoder) beginAnswer() {
	switch d.typ, d.length, d.left, d.keep = d.head[0], 1, 0, 0; d.typ {
	case 'S', 'N':
	case 'E':
		d.framing, d.open = messages, false
	default:
		d.desync("no answer to SSLRequest looks like this")
	}
}

func (d *decoder) beginPacket() {
	size := binary.BigEndian.Uint32(d.head[:4])
	handshake := d.head[0] == recordHandshake && d.head[1] == majorThree
	switch {
	case handshake && d.tls:
		d.framing, d.open = tlsUnits, false
		return
	case handshake:
		d.desync("a TLS handshake where a start-up packet belongs")
	case size < 8 || size > startupMax:
		d.desync("no start-up packet has this length")
	}
	d.typ, d.length = 0, int(size)
	d.left = d.length - 4
	d.keep = d.left
}

func (d *decoder) beginMessage() {
	d.typ = d.head[0]
	size := binary.BigEndian.Uint32(d.head[1:])
	k := kindOf(d.side, d.typ)
	switch {
	case k.name == "":
		d.desync("no message has this type")
	case size < 4 || size > messageMax || k.fixed != 0 && int(size) != k.fixed:
		d.desync("no " + k.name + " has this length")
	}
	d.length = int(size) + 1
	d.left = int(size) - 4
	d.keep = k.keep
}

func (d *decoder) beginRecord() {
	d.typ = d.head[0]
	if records[d.typ] == "" || d.head[1] != 3 {
		d.desync("no TLS record begins like this")
	}
	d.left = int(binary.BigEndian.Uint16(d.head[3:]))
	d.length = d.left + 5
	d.keep = 0
}

// take consumes what b has of the body.
func (d *decoder) take(b []byte) int {
	n := min(d.left, len(b))
	want := min(n, max(0, d.keep-len(d.kept)))
	if d.length-d.headSize() == n {
		d.body = b[:want] // the usual case: all of it is here, nothing is copied
	} else {
		d.kept = append(d.kept, b[:want]...)
		d.body = d.kept
	}
	if d.left -= n; d.left == 0 {
		d.open, d.have = false, 0
	}
	return n
}

// desync gives up: what follows is passed on and no longer understood.
func (d *decoder) desync(why string) { d.framing, d.open, d.bad = raw, false, why }
