package faultstest_test

import (
	"bytes"
	"context"
	"image"
	_ "image/png"
	"io"
	"net/http"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/faults/faultstest"
	"deadwire/faults/source"
)

// fetch gets an image as any client does.
func fetch(s *stage, limit time.Duration) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(s.Ctx, limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Images()+"/cards/a.png", nil)
	assert.NilError(s.T, err)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer got.Body.Close()
	body, err = io.ReadAll(got.Body)
	return got.StatusCode, body, err
}

// whole checks that the source serves its image.
func whole(s *stage) {
	status, body, err := fetch(s, faultstest.Patience)
	assert.NilError(s.T, err)
	assert.Equal(s.T, status, http.StatusOK)
	_, _, err = image.Decode(bytes.NewReader(body))
	assert.NilError(s.T, err)
}

func sourcePlays() []faultstest.Play {
	return []faultstest.Play{
		{Fault: source.Status{Code: 429, RetryAfterSec: 3, First: 2, Count: 1}, After: whole, Meet: func(s *stage) {
			whole(s) // only the second request is answered so
			status, _, err := fetch(s, faultstest.Patience)
			assert.NilError(s.T, err)
			assert.Equal(s.T, status, 429)
			whole(s)
		}},
		{Fault: source.Hang{}, After: whole, Meet: func(s *stage) {
			_, _, err := fetch(s, soon)
			assert.ErrorIs(s.T, err, context.DeadlineExceeded)
		}},
		{Fault: source.Cut{Bytes: 20}, After: whole, Meet: func(s *stage) {
			_, body, err := fetch(s, faultstest.Patience)
			assert.ErrorIs(s.T, err, io.ErrUnexpectedEOF)
			assert.Equal(s.T, len(body), 20)
		}},
		{Fault: source.Corrupt{Path: "*.png"}, After: whole, Meet: func(s *stage) {
			_, body, err := fetch(s, faultstest.Patience)
			assert.NilError(s.T, err)
			_, _, err = image.Decode(bytes.NewReader(body))
			assert.Assert(s.T, err != nil, "it can be decoded")
		}},
		{Fault: source.Bomb{}, After: whole, Meet: func(s *stage) {
			_, body, err := fetch(s, faultstest.Patience)
			assert.NilError(s.T, err)
			header, _, err := image.DecodeConfig(bytes.NewReader(body))
			assert.NilError(s.T, err)
			assert.Assert(s.T, len(body) < 64<<10, "%d bytes", len(body))
			assert.Equal(s.T, header.Width, 30000)
		}},
	}
}
