package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const module = "deadwire/"

// listed is what go list says about a package.
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// list returns all packages of the module. One that does not compile yet is
// listed too; the compiler complains about it elsewhere.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	assert.NilError(t, err)
	var packages []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		assert.NilError(t, err)
		packages = append(packages, p)
	}
}

// checkImports returns one sentence for each import that the tables forbid.
func checkImports(packages []listed) []string {
	var violations []string
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		if _, known := imports[name]; !known {
			violations = append(violations, name+": no rule; add one to cmd/architecture_test.go")
			continue
		}
		for _, path := range p.Imports {
			violations = append(violations, checkImport(name, path)...)
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			violations = append(violations, checkTestImport(name, path)...)
		}
	}
	return violations
}

func checkImport(name, path string) []string {
	if inner, ours := strings.CutPrefix(path, module); ours {
		if matchesAny(inner, imports[name]) {
			return nil
		}
		return []string{name + ": imports " + inner + ", which its rule does not allow"}
	}
	if isTesting(path) {
		if strings.HasSuffix(name, "test") {
			return nil
		}
		return []string{name + ": uses " + path + " outside of tests"}
	}
	return checkLibrary(name, path, "uses")
}

func checkTestImport(name, path string) []string {
	if inner, ours := strings.CutPrefix(path, module); ours {
		if slices.Contains(layers[top(name)], top(inner)) {
			return nil
		}
		return []string{name + ": a test imports " + inner + ", which is above it"}
	}
	if slices.ContainsFunc(testLibraries, func(library string) bool { return within(path, library) }) {
		return nil
	}
	return checkLibrary(name, path, "a test uses")
}

// isTesting reports whether a path belongs to tests alone. gotest.tools defines
// a flag when it is imported, which no binary of ours may have.
func isTesting(path string) bool { return within(path, "testing") || within(path, "gotest.tools/v3") }

func checkLibrary(name, path, verb string) []string {
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return nil // the standard library
	}
	best := ""
	for library := range libraries {
		if within(path, library) && len(library) > len(best) {
			best = library
		}
	}
	switch {
	case best == "":
		return []string{fmt.Sprintf("%s: %s %s, which has no rule", name, verb, path)}
	case !matchesAny(name, libraries[best]):
		return []string{fmt.Sprintf("%s: %s %s, which belongs to %s", name, verb, path, strings.Join(libraries[best], ", "))}
	}
	return nil
}

func top(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

// within reports whether path is root or below it.
func within(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func matchesAny(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if root, open := strings.CutSuffix(pattern, "..."); open {
			return root == "" || within(name, strings.TrimSuffix(root, "/"))
		}
		return name == pattern
	})
}
