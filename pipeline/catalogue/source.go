package catalogue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"deadwire/pipeline/fetch"
)

// maxFile bounds index and reference, in bytes: about a million cards.
const maxFile = 512 << 20

// timeout bounds the transfer of one of them.
const timeout = 5 * time.Minute

// Source is where a catalogue lies: a base URL that ends with a slash.
type Source struct {
	base *url.URL
}

// ParseSource accepts a folder's path, or a file, http or https URL.
func ParseSource(location string) (Source, error) {
	u, err := url.Parse(location)
	switch {
	case location == "":
		return Source{}, fmt.Errorf("parse source: location is empty")
	case strings.Contains(location, "://"):
		if err != nil {
			return Source{}, fmt.Errorf("parse source: not a URL") // err would repeat a password
		}
	default:
		abs, err := filepath.Abs(location)
		if err != nil {
			return Source{}, fmt.Errorf("parse source: %w", err)
		}
		u = &url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}
	}
	if u.Scheme != "file" && u.Scheme != "http" && u.Scheme != "https" {
		return Source{}, fmt.Errorf("parse source: scheme %q, want file, http or https", u.Scheme)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return Source{}, fmt.Errorf("parse source: a base URL has no query and no fragment")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return Source{base: u}, nil
}

// String is the base URL with any password masked.
func (s Source) String() string {
	if s.base == nil {
		return ""
	}
	return s.base.Redacted()
}

// URL is the address of a file of the source, such as Card.File.
func (s Source) URL(file string) string {
	u := *s.base
	u.Path += file
	return u.String()
}

// IsFolder tells whether the source is a folder of this machine.
func (s Source) IsFolder() bool { return s.base.Scheme == "file" }

// Dir is the folder's path, for one of this machine.
func (s Source) Dir() string { return filepath.FromSlash(s.base.Path) }

// ErrNoIndex says that a source is there and has no index.
var ErrNoIndex = errors.New("no " + IndexFile)

func missing(err error) bool {
	status, ok := errors.AsType[*fetch.StatusError](err)
	return errors.Is(err, os.ErrNotExist) || ok && (status.Code == http.StatusNotFound || status.Code == http.StatusGone)
}

// exists tells a folder without an index from a location that is nothing
func (s Source) exists(ctx context.Context, f *fetch.Fetcher) bool {
	if s.IsFolder() {
		info, err := os.Stat(s.Dir())
		return err == nil && info.IsDir()
	}
	return f.Fetch(ctx, fetch.Request{URL: s.URL("")}).Err == nil
}

// Load reads and checks a source. Errors: ErrNoIndex; *InvalidError for content; for
// access, those of fetch.Result.
func Load(ctx context.Context, source Source) (*Catalogue, error) {
	f := fetch.New(fetch.Config{MaxBody: maxFile, Fetchers: 1, Timeout: timeout})
	defer f.Close()
	raw, err := get(ctx, f, source, IndexFile)
	if missing(err) && source.exists(ctx, f) {
		return nil, fmt.Errorf("read catalogue %s: %w", source, ErrNoIndex)
	}
	if missing(err) && source.IsFolder() {
		return nil, fmt.Errorf("no such folder: %s (%w)", source.Dir(), os.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	cards, err := parseIndex(raw)
	if err != nil {
		return nil, fmt.Errorf("read catalogue %s: %w", source, err)
	}
	if raw, err = get(ctx, f, source, PrintingsFile); err != nil {
		return nil, err
	}
	printings, err := parsePrintings(raw)
	if err != nil {
		return nil, fmt.Errorf("read catalogue %s: %w", source, err)
	}
	return &Catalogue{Source: source, Cards: cards, Printings: printings}, nil
}

func get(ctx context.Context, f *fetch.Fetcher, source Source, file string) ([]byte, error) {
	r := f.Fetch(ctx, fetch.Request{ID: file, URL: source.URL(file)})
	if r.Err != nil {
		return nil, fmt.Errorf("read catalogue %s: %w", source, r.Err)
	}
	return r.Body, nil
}
