package source

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"

	"deadwire/faults"
	"deadwire/harness/event"
)

// Bomb serves an image of a few kilobytes that claims, and would unpack to, a
// square of so many pixels a side.
type Bomb struct {
	Side  int    `json:"side,omitempty" doc:"pixels a side; default 30000, which is 3.6 GB when unpacked"`
	First int    `json:"first,omitempty" doc:"from which request on, from 1; default 1"`
	Count int    `json:"count,omitempty" doc:"how many; default all until it is healed"`
	Path  string `json:"path,omitempty" doc:"only requests whose file name matches, wildcards allowed"`
}

// sideMax is PNG's own bound on width and height.
const sideMax = 1<<31 - 1

// Name implements faults.Fault.
func (Bomb) Name() string { return "source.bomb" }

// Available implements faults.Fault.
func (Bomb) Available(t faults.Target) error { return available(t) }

// Inject implements faults.Fault.
func (f Bomb) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	side := f.Side
	if side == 0 {
		side = 30000
	}
	if side < 0 || side > sideMax {
		return nil, fmt.Errorf("side: %d: want 1 to %d", f.Side, sideMax)
	}
	body := bomb(uint32(side))
	return intercept(t, rec, f, Which{f.First, f.Count, f.Path}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(body)
	}), nil
}

// bomb makes a PNG (RFC 2083) whose header claims a square of 8-bit RGBA, with
// the beginning of its black rows.
func bomb(side uint32) []byte {
	out := bytes.NewBufferString("\x89PNG\r\n\x1a\n")
	header := binary.BigEndian.AppendUint32(nil, side)
	header = binary.BigEndian.AppendUint32(header, side)
	chunk(out, "IHDR", append(header, 8, 6, 0, 0, 0)) // depth, RGBA, deflate, filters, not interlaced
	var rows bytes.Buffer
	packed := zlib.NewWriter(&rows)
	_, _ = packed.Write(make([]byte, 4<<20)) // into memory, which does not fail
	_ = packed.Close()
	chunk(out, "IDAT", rows.Bytes())
	chunk(out, "IEND", nil)
	return out.Bytes()
}

// chunk writes length, type, data and the CRC over type and data.
func chunk(out *bytes.Buffer, kind string, data []byte) {
	out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
	body := append([]byte(kind), data...)
	out.Write(body)
	out.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(body)))
}
