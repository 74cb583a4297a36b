package frame_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/pipeline/frame"
)

func TestFramesComeBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SliceOfN(rapid.Byte(), 0, 200)
		sent := rapid.SliceOf(rapid.Custom(func(t *rapid.T) frame.Frame {
			return frame.Frame{Head: part.Draw(t, "head"), Body: part.Draw(t, "body")}
		})).Draw(t, "frames")
		var pipe bytes.Buffer
		w := frame.NewWriter(&pipe, 0)
		for _, f := range sent {
			assert.NilError(t, w.Write(f))
		}
		r := frame.NewReader(iotest.OneByteReader(&pipe), 0)
		for _, want := range sent {
			got, err := r.Read()
			assert.NilError(t, err)
			assert.Assert(t, bytes.Equal(got.Head, want.Head) && bytes.Equal(got.Body, want.Body))
		}
		_, err := r.Read()
		assert.Equal(t, err, io.EOF)
	})
}

func TestLargeBodyIsKeptWhole(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	var pipe bytes.Buffer
	assert.NilError(t, frame.NewWriter(&pipe, 0).WriteJSON(map[string]int{"n": 7}, body))
	var head struct{ N int }
	got, err := frame.NewReader(&pipe, 0).ReadJSON(&head)
	assert.NilError(t, err)
	assert.Equal(t, head.N, 7)
	assert.Assert(t, bytes.Equal(got, body))
}

func TestEveryCutInsideAFrameIsTruncation(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer
	assert.NilError(t, frame.NewWriter(&pipe, 0).Write(frame.Frame{Head: []byte("head"), Body: []byte("body")}))
	whole := pipe.Bytes()
	for cut := 1; cut < len(whole); cut++ {
		_, err := frame.NewReader(bytes.NewReader(whole[:cut]), 0).Read()
		assert.ErrorIs(t, err, frame.ErrTruncated, "cut after %d of %d bytes", cut, len(whole))
	}
}

func TestOversizeIsRefusedOnBothSides(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer
	var tooLarge *frame.TooLargeError
	err := frame.NewWriter(&pipe, 10).Write(frame.Frame{Head: make([]byte, 6), Body: make([]byte, 5)})
	assert.Assert(t, errors.As(err, &tooLarge))
	assert.Equal(t, *tooLarge, frame.TooLargeError{Size: 11, Limit: 10})
	assert.Equal(t, pipe.Len(), 0, "nothing of a refused frame may be on the stream")

	assert.NilError(t, frame.NewWriter(&pipe, 11).Write(frame.Frame{Head: make([]byte, 6), Body: make([]byte, 5)}))
	_, err = frame.NewReader(&pipe, 10).Read()
	assert.Assert(t, errors.As(err, &tooLarge))
}

func TestReadErrorsAreNotTruncation(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	prefix := []byte{0, 0, 0, 4, 0, 0, 0, 0, 'a'}
	r := frame.NewReader(io.MultiReader(bytes.NewReader(prefix), iotest.ErrReader(broken)), 0)
	_, err := r.Read()
	assert.ErrorIs(t, err, broken)
	assert.Assert(t, !errors.Is(err, frame.ErrTruncated))
}

func TestWriteErrorIsReported(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	assert.NilError(t, r.Close())
	assert.ErrorIs(t, frame.NewWriter(w, 0).Write(frame.Frame{Head: []byte("x")}), io.ErrClosedPipe)
	err := frame.NewWriter(io.Discard, 0).WriteJSON(func() {}, nil)
	assert.ErrorContains(t, err, "encode frame head")
}

func TestHeadThatIsNotJSON(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer
	assert.NilError(t, frame.NewWriter(&pipe, 0).Write(frame.Frame{Head: []byte("{")}))
	_, err := frame.NewReader(&pipe, 0).ReadJSON(&struct{}{})
	assert.ErrorContains(t, err, "decode frame head")
}

// A claimed length must not be paid for before its bytes arrive.
func TestClaimedLengthDoesNotAllocate(t *testing.T) {
	prefix := make([]byte, 8)
	binary.BigEndian.PutUint32(prefix[4:], 60<<20)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := frame.NewReader(bytes.NewReader(prefix), 0).Read()
			assert.ErrorIs(b, err, frame.ErrTruncated)
		}
	}).AllocedBytesPerOp()
	assert.Assert(t, allocated < 1<<20, "%d bytes", allocated)
}

func FuzzReader(f *testing.F) {
	var pipe bytes.Buffer
	_ = frame.NewWriter(&pipe, 0).Write(frame.Frame{Head: []byte(`{"a":1}`), Body: []byte("body")})
	f.Add(pipe.Bytes())
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 16
		r := frame.NewReader(bytes.NewReader(data), limit)
		var again bytes.Buffer
		for {
			got, err := r.Read()
			if err != nil {
				break
			}
			if len(got.Head)+len(got.Body) > limit {
				t.Fatalf("frame of %d bytes passed a limit of %d", len(got.Head)+len(got.Body), limit)
			}
			if err := frame.NewWriter(&again, limit).Write(got); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(data, again.Bytes()) {
			t.Fatal("what was read, written again, is not what came in")
		}
	})
}
