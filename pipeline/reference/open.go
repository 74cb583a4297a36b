package reference

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

const (
	// bytesMax bounds the decompressed data; the largest that is published has a third.
	bytesMax = 8 << 30
	// metadataMax bounds a bulk-data object, or the list of them.
	metadataMax = 1 << 20
	// stallDefault is how long a source may send nothing.
	stallDefault = time.Minute
	// bulkType is the kind of bulk data that has each printing once.
	bulkType = "default_cards"
)

// httpDoer is what of an *http.Client is needed.
type httpDoer interface {
	Do(*http.Request) (*http.Response, error)
}

// SourceError says why a source could not be read.
type SourceError struct {
	Location string // without password
	Status   int    // of HTTP; 0: none
	Err      error
}

func (e *SourceError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("open reference %s: status %d", e.Location, e.Status)
	}
	return fmt.Sprintf("open reference %s: %v", e.Location, e.Err)
}

func (e *SourceError) Unwrap() error { return e.Err }

// offer is a source that was opened: its vintage is known, its cards are not yet read.
type offer struct {
	location, vintage string

	raw     io.Closer
	plain   *bufio.Reader // decompressed
	counted *counter
	sum     hash.Hash
}

// counter counts and hashes what passes, and bounds it
type counter struct {
	from io.Reader
	sum  hash.Hash
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	if c.n > bytesMax {
		return 0, fmt.Errorf("more than %d bytes", int64(bytesMax))
	}
	n, err := c.from.Read(p)
	c.n += int64(n)
	_, _ = c.sum.Write(p[:n]) // a hash never fails
	return n, err
}

func (o *offer) close() error   { return o.raw.Close() }
func (o *offer) bytes() int64   { return o.counted.n }
func (o *offer) digest() string { return hex.EncodeToString(o.sum.Sum(nil)) }

// open follows a bulk-data object to the data that it describes.
func open(ctx context.Context, location string, opts Options) (*offer, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return openFile(strings.TrimPrefix(location, "file://"))
	}
	o, err := openURL(ctx, u, opts)
	if err != nil {
		return nil, err
	}
	described, err := o.description()
	if err != nil || described == nil {
		return o, closeAfter(o, err)
	}
	if err := o.close(); err != nil {
		return nil, err
	}
	next, err := url.Parse(described.DownloadURI)
	if err != nil || described.DownloadURI == "" {
		return nil, &SourceError{Location: o.location, Err: errors.New("bulk-data object without download_uri")}
	}
	data, err := openURL(ctx, u.ResolveReference(next), opts)
	if err != nil {
		return nil, err
	}
	data.location, data.vintage = o.location, described.UpdatedAt
	return data, nil
}

func closeAfter(o *offer, err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(&SourceError{Location: o.location, Err: err}, o.close())
}

func openFile(path string) (*offer, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &SourceError{Location: path, Err: err}
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, errors.Join(&SourceError{Location: path, Err: err}, file.Close())
	}
	vintage := fmt.Sprintf("%s %d bytes", info.ModTime().UTC().Format(time.RFC3339Nano), info.Size())
	return newOffer(path, vintage, file, file)
}

func newOffer(location, vintage string, from io.Reader, closer io.Closer) (*offer, error) {
	compressed := bufio.NewReader(from)
	plain := io.Reader(compressed)
	if magic, _ := compressed.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // RFC 1952, section 2.3.1
		unzipped, err := gzip.NewReader(compressed)
		if err != nil {
			return nil, errors.Join(&SourceError{Location: location, Err: err}, closer.Close())
		}
		plain = unzipped
	}
	o := &offer{location: location, vintage: vintage, raw: closer, sum: sha256.New()}
	o.counted = &counter{from: plain, sum: o.sum}
	o.plain = bufio.NewReaderSize(o.counted, 64<<10)
	return o, nil
}

func openURL(ctx context.Context, u *url.URL, opts Options) (*offer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stall := newWatch(opts.Stall, cancel)
	fail := func(status int, err error) error {
		stall.stop()
		cancel(nil)
		return &SourceError{Location: u.Redacted(), Status: status, Err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fail(0, errors.New("not a request"))
	}
	// Scryfall's API refuses requests without both (scryfall.com/docs/api)
	request.Header.Set("User-Agent", "conveyor/1")
	request.Header.Set("Accept", "application/json;q=0.9,*/*;q=0.8")
	client := opts.Client
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fail(0, errors.Join(err, context.Cause(ctx)))
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close() // the status says enough
		return nil, fail(answer.StatusCode, nil)
	}
	vintage := answer.Header.Get("ETag")
	if vintage == "" {
		vintage = answer.Header.Get("Last-Modified")
	}
	body := &watched{Reader: answer.Body, watch: stall, cause: func() error { return context.Cause(ctx) }}
	return newOffer(u.Redacted(), vintage, body, closer(func() error {
		stall.stop()
		cancel(nil)
		return answer.Body.Close()
	}))
}

type closer func() error

func (c closer) Close() error { return c() }

// description is a bulk-data object (scryfall.com/docs/api/bulk-data).
type description struct {
	Object      string        `json:"object"`
	Type        string        `json:"type"`
	UpdatedAt   string        `json:"updated_at"`
	DownloadURI string        `json:"download_uri"`
	Details     string        `json:"details"` // of an error
	Data        []description `json:"data"`    // of a list
}

var describes = regexp.MustCompile(`^\s*\{\s*"object"\s*:\s*"(?:bulk_data|list|error)"`)

// description returns nil when the source is the data itself.
func (o *offer) description() (*description, error) {
	head, _ := o.plain.Peek(64) // a short source is told by what follows
	if !describes.Match(head) {
		return nil, nil
	}
	var d description
	if err := json.NewDecoder(io.LimitReader(o.plain, metadataMax)).Decode(&d); err != nil {
		return nil, fmt.Errorf("read bulk-data object: %w", err)
	}
	for _, listed := range d.Data {
		if listed.Type == bulkType {
			return &listed, nil
		}
	}
	if d.Object != "bulk_data" {
		return nil, fmt.Errorf("no bulk data of type %s: %s", bulkType, d.Details)
	}
	return &d, nil
}
