package planted

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bug is one mistake that can be planted.
type Bug struct {
	Name string
	// Sentence says what the planted conveyor does wrong.
	Sentence string
	// Promise is what the oracle or the diagnosis says about it: the name of a
	// promise, or the id of a rule.
	Promise string
	// edits are what the mistake changes in files of the module.
	edits []edit
	// added are new files of the module, by path.
	added map[string]string
}

// edit replaces a text that stands exactly once in a file of the module.
type edit struct{ file, old, new string }

// Find returns a bug by its name.
func Find(name string) (Bug, error) {
	for _, b := range Bugs() {
		if b.Name == name {
			return b, nil
		}
	}
	return Bug{}, fmt.Errorf("unknown bug %q: want one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the bugs, ordered.
func Names() []string {
	var names []string
	for _, b := range Bugs() {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return names
}

// switchFile is added to each package in which something is planted. A program
// has the bug that its own file is named for, so that one build serves for all.
const switchFile = `
import (
	"os"
	"path/filepath"
)

func planted(bug string) bool { return filepath.Base(os.Args[0]) == "` + prefix + `"+bug }
`

// prefix begins the name of a program with a bug.
const prefix = "planted-"

// Check says which bug has lost its place in the sources, and where that was.
func Check(ctx context.Context) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	files, err := overlay(root)
	if err != nil {
		return err
	}
	for path, text := range files {
		if _, err := parser.ParseFile(token.NewFileSet(), path, text, parser.AllErrors); err != nil {
			return fmt.Errorf("as planted: %w", err)
		}
	}
	return nil
}

// overlay returns the changed and added files of the module at root, by their
// path below it. It is an error when a text to be replaced is not there just once.
func overlay(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, b := range Bugs() {
		for _, e := range b.edits {
			if err := e.apply(root, files); err != nil {
				return nil, fmt.Errorf("bug %s: %w", b.Name, err)
			}
		}
		for path, text := range b.added {
			files[path] = text
		}
	}
	for path := range files {
		dir := filepath.Dir(path)
		files[filepath.Join(dir, "zz_planted_switch.go")] = "package " + filepath.Base(dir) + "\n" + switchFile
	}
	return files, nil
}

func (e edit) apply(root string, files map[string]string) error {
	text, changed := files[e.file]
	if !changed {
		read, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
		if err != nil {
			return err
		}
		text = string(read)
	}
	if n := strings.Count(text, e.old); n != 1 {
		return fmt.Errorf("%s has %d times what is to be replaced, want once; adapt bugs.go to: %q", e.file, n, e.old)
	}
	files[e.file] = strings.Replace(text, e.old, e.new, 1)
	return nil
}
