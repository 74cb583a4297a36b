package pipeline

import (
	"context"
	"fmt"
	"iter"
	"runtime"

	"golang.org/x/sync/errgroup" // chosen for its limit

	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/fetch"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// folderChunk is the number of files that one transaction stores: what a kill of the
// import loses.
const folderChunk = 128

// Files is what an import without an index found. Files is the sum of all others.
type Files struct {
	Files     int            `json:"files"`
	Cards     int            `json:"cards"`             // measured now
	Unchanged int            `json:"unchanged"`         // as they were when they were last looked at
	Skipped   map[string]int `json:"skipped,omitempty"` // no cards, by reason
}

// fileRow and skipRow are the JSON rows that the import statements read.
type (
	fileRow struct {
		cardRow
		Stamp string `json:"stamp"`
	}
	skipRow struct {
		File   string `json:"file"`
		Reason string `json:"reason"`
		Detail string `json:"detail"`
		Stamp  string `json:"stamp"`
	}
	knownRow struct {
		File, Stamp, Reason, Detail string
	}
)

// folder is an import from a source that has no index: each image is a card.
type folder struct {
	session *session.Session
	source  catalogue.Source
	fetcher *fetch.Fetcher // nil for a folder of this machine
	id      int64
	done    *Imported
	opts    ImportOptions
}

// importFolder stores chunk by chunk, so that an import that was ended goes on where
// it ended, and one that is repeated reads only what changed.
func importFolder(ctx context.Context, s *session.Session, source catalogue.Source, done *Imported, opts ImportOptions) error {
	f := &folder{session: s, source: source, done: done, opts: opts}
	done.Files = &Files{Skipped: map[string]int{}}
	if !source.IsFolder() {
		f.fetcher = fetch.New(fetch.Config{})
		defer f.fetcher.Close()
	}
	var err error
	if f.id, err = sourceID(ctx, s, done.Source); err != nil {
		return err
	}
	chunk := make([]catalogue.File, 0, folderChunk)
	for file := range f.files(ctx) {
		if chunk = append(chunk, file); len(chunk) == folderChunk {
			if err := f.store(ctx, chunk); err != nil {
				return err
			}
			chunk = chunk[:0]
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return f.store(ctx, chunk)
}

func (f *folder) files(ctx context.Context) iter.Seq[catalogue.File] {
	if f.fetcher == nil {
		return catalogue.Walk(ctx, f.source.Dir())
	}
	return catalogue.List(ctx, f.fetcher, f.source)
}

// measured is one file after it was looked at: a card, a skip, or neither when it is
// what it was
type measured struct {
	file  catalogue.File
	card  *catalogue.Card
	known bool // the skip is stored already; an upsert would lock its row for nothing
}

func (f *folder) store(ctx context.Context, chunk []catalogue.File) error {
	names := make([]string, 0, len(chunk))
	for _, file := range chunk {
		names = append(names, file.Name)
	}
	rows, err := session.Rows[knownRow](ctx, f.session, schema.FilesKnown, f.id, names)
	if err != nil {
		return fmt.Errorf("read known files: %w", err)
	}
	known := make(map[string]knownRow, len(rows))
	for _, row := range rows {
		known[row.File] = row
	}
	found, err := f.measure(ctx, chunk, known)
	if err != nil {
		return err
	}
	return f.session.InTx(ctx, func(tx *session.Tx) error { return f.write(ctx, tx, found) })
}

// measure looks at files side by side; memory is bounded by the number of hands
func (f *folder) measure(ctx context.Context, chunk []catalogue.File, known map[string]knownRow) ([]measured, error) {
	found := make([]measured, len(chunk))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range chunk {
		group.Go(func() error {
			was := known[file.Name]
			m := f.look(ctx, file, was)
			m.known = m.file.Skip != "" && was.Reason == m.file.Skip && was.Stamp == m.file.Stamp
			found[i] = m
			return context.Cause(ctx)
		})
	}
	return found, group.Wait()
}

func (f *folder) look(ctx context.Context, file catalogue.File, was knownRow) measured {
	if file.Skip != "" {
		return measured{file: file}
	}
	if f.fetcher == nil && was.Stamp != "" && was.Stamp == file.Stamp {
		return was.again(file)
	}
	var data []byte
	if f.fetcher != nil {
		file.Stamp = was.Stamp
		data, file = catalogue.Get(ctx, f.fetcher, f.source, file)
	} else {
		data, file = f.source.Read(file)
	}
	if data == nil {
		if file.Skip == "" {
			return was.again(file)
		}
		return measured{file: file}
	}
	card, file := f.source.Measure(file, data)
	if file.Skip != "" {
		return measured{file: file}
	}
	return measured{file: file, card: &card}
}

// again is a file that is what it was: a card, or no card for the same reason
func (k knownRow) again(file catalogue.File) measured {
	file.Skip, file.Detail = k.Reason, k.Detail
	return measured{file: file}
}

func (f *folder) write(ctx context.Context, tx *session.Tx, found []measured) error {
	cards, skips, mended := []fileRow{}, []skipRow{}, []string{}
	files := f.done.Files // what a failed chunk counted is never shown as stored: the import ends with it
	for _, m := range found {
		files.Files++
		switch {
		case m.card != nil:
			files.Cards++
			cards = append(cards, fileRow{cardRows([]catalogue.Card{*m.card})[0], m.file.Stamp})
			mended = append(mended, m.file.Name)
		case m.file.Skip != "":
			files.Skipped[m.file.Skip]++
			if m.known {
				continue
			}
			skips = append(skips, skipRow{m.file.Name, m.file.Skip, m.file.Detail, m.file.Stamp})
		default:
			files.Unchanged++
		}
	}
	if len(cards)+len(skips) == 0 {
		return nil
	}
	changed, err := storeCards(ctx, tx, f.opts, schema.FilesCards, cards, f.id)
	if err != nil {
		return fmt.Errorf("store cards: %w", err)
	}
	if _, err = tx.Exec(ctx, schema.FilesSkips, skips, f.id); err != nil {
		return fmt.Errorf("store skips: %w", err)
	}
	if _, err = tx.Exec(ctx, schema.FilesMended, f.id, mended); err != nil {
		return fmt.Errorf("forget skips: %w", err)
	}
	f.done.Cards += len(cards)
	f.done.CardsChanged += changed
	return nil
}
