package witness

import (
	"io"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestMessageType(t *testing.T) {
	t.Parallel()
	const terminateMessage, sync = "X\x00\x00\x00\x04", "S\x00\x00\x00\x04"
	query := "Q\x00\x00\x00\x0dselect 1\x00"
	for name, tc := range map[string]struct{ sent, want string }{
		"Terminate":                  {terminateMessage, "Terminate"},
		"Terminate behind Sync":      {sync + terminateMessage, "Terminate"},
		"Terminate behind a query":   {query + terminateMessage, "Terminate"},
		"query":                      {query, "Query"},
		"two messages":               {sync + query, "Sync"},
		"an X within a query":        {"Q\x00\x00\x00\x0aX\x00\x00\x00\x04\x00", "Query"},
		"a torn query":               {query[:8], "Query"},
		"an X of another length":     {"X\x00\x00\x00\x05\x00", ""},
		"the middle of something":    {"\xffabcdefg", ""},
		"too short for a message":    {"X\x00\x00", ""},
		"nothing":                    {"", ""},
		"start-up":                   {"\x00\x00\x00\x08\x04\xd2\x16\x2f", "Startup"},
		"a length that runs away":    {"Q\xff\xff\xff\xff.....", "Query"},
		"a length below itself":      {"Q\x00\x00\x00\x00" + terminateMessage, "Query"},
		"encrypted":                  {"\x17\x03\x03\x00\x16" + strings.Repeat("?", 22), "TLSRecord"},
		"COPY with more than we see": {"d\x00\x10\x00\x00" + strings.Repeat("x", 100), "CopyData"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := messageType(len(tc.sent), func(at int, into []byte) error {
				if copy(into, tc.sent[at:]) < len(into) {
					return io.ErrUnexpectedEOF
				}
				return nil
			})
			assert.Equal(t, got, tc.want)
		})
	}
}

func TestMessageTypeGivesUpOnMemoryThatCannotBeRead(t *testing.T) {
	t.Parallel()
	assert.Equal(t, messageType(5, func(int, []byte) error { return io.EOF }), "")
}

func TestMessageTypeLooksAtABoundedNumberOfMessages(t *testing.T) {
	t.Parallel()
	reads := 0
	name := messageType(1<<30, func(_ int, into []byte) error {
		reads++
		copy(into, "S\x00\x00\x00\x04")
		return nil
	})
	assert.Equal(t, name, "Sync")
	assert.Equal(t, reads, walkMax)
}

func FuzzMessageType(f *testing.F) {
	f.Add([]byte("X\x00\x00\x00\x04"))
	f.Add([]byte("Q\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		messageType(len(sent), func(at int, into []byte) error {
			if at < 0 || at+len(into) > len(sent) {
				t.Fatalf("read of %d bytes at %d of %d", len(into), at, len(sent))
			}
			copy(into, sent[at:])
			return nil
		})
	})
}
