package catalogue

import (
	"context"
	"errors"
	"fmt"
	"html"
	"iter"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"deadwire/pipeline/fetch"
)

// Bounds of a listing, so that a server cannot send us round for ever.
const (
	listingDepth   = 20
	listingFolders = 100_000
)

// link is the target of an anchor. Directory listings are written by programs; all of
// them (Apache, nginx, Go, Python) quote or encode it.
var link = regexp.MustCompile(`(?i)<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))`)

// imageNames are the extensions that are worth a fetch.
var imageNames = map[string]bool{
	"": true, ".png": true, ".jpg": true, ".jpeg": true, ".jpe": true, ".jfif": true, ".gif": true, ".webp": true,
	".bmp": true, ".tif": true, ".tiff": true,
}

// List finds the files that a server's directory listings name, below the source
// and each once. A folder that cannot be listed is a File with a reason.
func List(ctx context.Context, f *fetch.Fetcher, source Source) iter.Seq[File] {
	return func(yield func(File) bool) {
		seen := map[string]bool{"": true}
		folders := []string{""}
		for len(folders) > 0 && ctx.Err() == nil {
			folder := folders[0]
			folders = folders[1:]
			answer := f.Fetch(ctx, fetch.Request{ID: folder, URL: source.URL(folder)})
			if answer.Err != nil {
				if !yield((File{Name: path.Join(folder, ".")}).skipped(SkipUnavailable, answer.Err)) {
					return
				}
				continue
			}
			for name := range source.links(folder, string(answer.Body)) {
				switch {
				case seen[name]:
				case !strings.HasSuffix(name, "/"):
					if !yield(listed(name)) {
						return
					}
				case strings.Count(name, "/") > listingDepth || len(seen) > listingFolders:
					if !yield((File{Name: name}).skipped(SkipLoop, "too deep, or too many folders")) {
						return
					}
				default:
					folders = append(folders, name)
				}
				seen[name] = true
			}
		}
	}
}

func listed(name string) File {
	f := File{Name: name}
	switch {
	case !utf8.ValidString(name):
		f.Name = fmt.Sprintf("%q", name)
		return f.skipped(SkipName, "its name is no UTF-8")
	case !imageNames[strings.ToLower(path.Ext(name))]:
		return f.skipped(SkipNotImage, "by its name")
	}
	return f
}

// links yields what a listing of folder links to below the source, as paths below it
func (s Source) links(folder, page string) iter.Seq[string] {
	here, _ := url.Parse(s.URL(folder)) // made by us
	return func(yield func(string) bool) {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			target, err := here.Parse(html.UnescapeString(m[1] + m[2] + m[3]))
			if err != nil || target.RawQuery != "" || target.Host != here.Host || target.Scheme != here.Scheme {
				continue
			}
			name, below := strings.CutPrefix(target.Path, s.base.Path)
			if below && name != "" && strings.HasPrefix(name, folder) && name != folder && path.Clean("/"+name) == "/"+strings.TrimSuffix(name, "/") && !yield(name) {
				return
			}
		}
	}
}

// Get fetches a listed file's bytes, unless they are still those of f.Stamp, and says
// why it is no card. Nil bytes without a reason mean that nothing changed.
func Get(ctx context.Context, fetcher *fetch.Fetcher, source Source, f File) ([]byte, File) {
	answer := fetcher.Fetch(ctx, fetch.Request{ID: f.Name, URL: source.URL(f.Name), Unless: f.Stamp})
	switch {
	case answer.Outcome == fetch.Unchanged:
		return nil, f
	case answer.Err != nil:
		return nil, f.skipped(unavailable(answer.Err), answer.Err)
	}
	f.Stamp = answer.Stamp
	if len(answer.Body) == 0 {
		return nil, f.skipped(SkipEmpty, "")
	}
	return answer.Body, f
}

func unavailable(err error) string {
	if _, large := errors.AsType[*fetch.TooLargeError](err); large {
		return SkipTooLarge
	}
	return SkipUnavailable
}
