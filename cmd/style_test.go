package cmd

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// limits of the house style, in lines
const (
	functionLinesMax = 60
	fileLinesMax     = 400
)

// leftovers are names of packages that hold whatever had no place.
var leftovers = []string{"util", "utils", "common", "types", "helpers", "misc"}

// fileCheck collects what one file does against the style.
type fileCheck struct {
	name       string // relative to the module, with slashes
	positions  *token.FileSet
	file       *ast.File
	violations []string
}

// checkFile returns whether the file documents its package, and one sentence
// for each thing that is against the style.
func checkFile(name string, source []byte) (documented bool, violations []string) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, source, parser.ParseComments)
	if err != nil {
		return false, []string{err.Error()}
	}
	c := fileCheck{name: name, positions: positions, file: file}
	c.checkSize(source)
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			c.checkFunction(n)
		case *ast.SelectorExpr:
			c.checkUse(n)
		case *ast.CallExpr:
			c.checkError(n)
		}
		return true
	})
	return file.Doc.Text() != "", c.violations
}

func (c *fileCheck) report(at token.Pos, format string, args ...any) {
	place := c.name + ":" + strconv.Itoa(c.positions.Position(at).Line)
	c.violations = append(c.violations, place+": "+fmt.Sprintf(format, args...))
}

func (c *fileCheck) inTest() bool { return strings.HasSuffix(c.name, "_test.go") }

func (c *fileCheck) checkSize(source []byte) {
	if lines := bytes.Count(source, []byte("\n")); lines > fileLinesMax {
		c.report(c.file.Package, "file has %d lines, more than %d", lines, fileLinesMax)
	}
	if slices.Contains(leftovers, c.file.Name.Name) {
		c.report(c.file.Package, "package named %s: name it by what it owns", c.file.Name.Name)
	}
}

func (c *fileCheck) checkFunction(f *ast.FuncDecl) {
	lines := c.positions.Position(f.End()).Line - c.positions.Position(f.Pos()).Line + 1
	if lines > functionLinesMax {
		c.report(f.Pos(), "function %s has %d lines, more than %d", f.Name.Name, lines, functionLinesMax)
	}
}

// checkUse looks at a use of another package's name.
func (c *fileCheck) checkUse(s *ast.SelectorExpr) {
	switch name := s.Sel.Name; {
	case c.isFrom(s, "time") && name == "Sleep" && path.Dir(c.name) != "harness/wait":
		c.report(s.Pos(), "time.Sleep: wait for a fact instead")
	case c.isFrom(s, "os") && name == "Exit" && !c.inTest() && !within(c.name, "cmd"):
		c.report(s.Pos(), "os.Exit outside of cmd: return an error or a code")
	case c.isFrom(s, "log") && strings.HasPrefix(name, "Fatal") && !within(c.name, "cmd"):
		c.report(s.Pos(), "log.%s outside of cmd: return an error", name)
	}
}

// checkError looks at the wording of an error.
func (c *fileCheck) checkError(call *ast.CallExpr) {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || c.inTest() || len(call.Args) == 0 {
		return
	}
	if !(c.isFrom(s, "fmt") && s.Sel.Name == "Errorf") && !(c.isFrom(s, "errors") && s.Sel.Name == "New") {
		return
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return
	}
	if strings.Contains(text, "failed to") {
		c.report(call.Pos(), `error says "failed to": every error does; name the act`)
	}
	if first, _, _ := strings.Cut(text, " "); isCapitalised(first) {
		c.report(call.Pos(), "error %q starts with a capital", text)
	}
}

// isCapitalised tells "Open" from names that are written so: PostgreSQL, URL,
// or Go's own identifiers such as BackendKeyData.
func isCapitalised(word string) bool {
	runes := []rune(word)
	return len(runes) > 1 && unicode.IsUpper(runes[0]) && !slices.ContainsFunc(runes[1:], unicode.IsUpper)
}

// isFrom reports whether a selector's left side is the import of a package of
// the standard library, under whatever name.
func (c *fileCheck) isFrom(s *ast.SelectorExpr, imported string) bool {
	left, ok := s.X.(*ast.Ident)
	if !ok {
		return false
	}
	for _, spec := range c.file.Imports {
		if spec.Path.Value != strconv.Quote(imported) {
			continue
		}
		if spec.Name != nil {
			return left.Name == spec.Name.Name
		}
		return left.Name == imported
	}
	return false
}
