package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"deadwire/faults"
	"deadwire/faults/catalog"
	"deadwire/harness/diagnose"
)

// errorf returns an error with the place in the file of the value at path.
func (s source) errorf(path []string, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", s.file, s.line(path...), fmt.Errorf(format, args...))
}

func at(path []string, steps ...any) []string {
	path = slices.Clone(path)
	for _, step := range steps {
		path = append(path, fmt.Sprint(step))
	}
	return path
}

// checkEntries refuses entries of `faults:` that do not name exactly one fault,
// which the schema cannot say.
func (s source) checkEntries() error {
	for _, name := range s.keys("cases") {
		for i := range s.length("cases", name, "faults") {
			path := []string{"cases", name, "faults", strconv.Itoa(i)}
			named := slices.DeleteFunc(s.keys(path...), func(key string) bool { return key == "when" })
			switch {
			case len(named) == 0:
				return s.errorf(path, "%s: it says when, but no fault", place(path))
			case len(named) > 1:
				return s.errorf(at(path, named[1]), "%s: two faults in one entry: %s and %s; begin a new entry with a dash", place(path), named[0], named[1])
			}
		}
	}
	return nil
}

// checkAliases refuses YAML's anchors and aliases: ten lines of them make a value
// that no memory holds, and no error could name one place for what they repeat.
func (s source) checkAliases() error {
	for _, doc := range s.doc.Docs {
		finder := aliases{}
		ast.Walk(&finder, doc)
		if finder.line > 0 {
			return fmt.Errorf("%s:%d: an anchor or alias (%s): write the value out", s.file, finder.line, finder.text)
		}
	}
	return nil
}

// aliases finds the first anchor or alias of a document.
type aliases struct {
	line int
	text string
}

// Visit implements ast.Visitor.
func (a *aliases) Visit(node ast.Node) ast.Visitor {
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		if a.line == 0 {
			a.line, a.text = node.GetToken().Position.Line, node.GetToken().Value
		}
	}
	return a
}

// checkServer refuses faults that would stop a server which other cases use too.
func (s source) checkServer(of Scenario, c Case) error {
	for i, step := range c.Faults {
		owner, ok := step.Fault.(faults.ServerOwner)
		if ok && owner.NeedsServer() && !of.OwnServer() {
			return s.errorf(at([]string{"cases", c.Name}, "faults", i), "fault %s stops the whole server: give the scenario one of its own with `server: own`", step.Fault.Name())
		}
	}
	return nil
}

func (s source) checkLimit(limit string) error {
	if limit == "" {
		return nil
	}
	if d, err := time.ParseDuration(limit); err != nil || d <= 0 {
		return s.errorf([]string{"limit"}, "limit: %q is no duration, such as 30s", limit)
	}
	return nil
}

// check refuses words that the schema cannot know: rules, promises, patterns,
// faults to heal.
func (s source) check(c Case) error {
	path := []string{"cases", c.Name}
	for i, step := range c.Faults {
		if err := s.checkTrigger(at(path, "faults", i, "when"), step.When); err != nil {
			return err
		}
	}
	for i, step := range c.After {
		if step.Heal == "" {
			continue
		}
		var injected []string
		for _, f := range c.Faults {
			injected = append(injected, f.Fault.Name())
		}
		if !slices.Contains(injected, step.Heal) {
			return s.errorf(at(path, "after", i, "heal"), "no fault %q in this case%s", step.Heal, catalog.Suggest(step.Heal, injected))
		}
	}
	if err := s.checkExpect(at(path, "expect"), c.Expect); err != nil || c.Resume == nil {
		return err
	}
	return s.checkExpect(at(path, "resume", "expect"), c.Resume.Expect)
}

// checkTrigger refuses triggers of which a part would be passed over.
func (s source) checkTrigger(path []string, t faults.Trigger) error {
	if fields := s.keys(path...); len(fields) > 1 {
		return s.errorf(at(path, fields[1]), "%s: it has both %s and %s; one trigger has one condition", place(path), fields[0], fields[1])
	}
	if t.Journal != nil {
		if err := s.checkPattern(at(path, "journal", "text"), t.Journal.Text); err != nil {
			return err
		}
	}
	return s.checkPattern(at(path, "output"), t.Output)
}

func (s source) checkPattern(path []string, pattern string) error {
	if _, err := regexp.Compile(pattern); err != nil {
		return s.errorf(path, "%s: %w", place(path), err)
	}
	return nil
}

func (s source) checkExpect(path []string, e Expect) error {
	for i, m := range e.Endings {
		if err := s.checkRule(at(path, "endings", i, "rule"), m.Rule); err != nil {
			return err
		}
	}
	for i, m := range e.Findings {
		if err := s.checkRule(at(path, "findings", i, "rule"), m.Rule); err != nil {
			return err
		}
	}
	for _, name := range s.keys(at(path, "invariants")...) {
		if !slices.Contains(promiseNames(), name) {
			return s.errorf(at(path, "invariants", name), "unknown invariant %q%s", name, catalog.Suggest(name, promiseNames()))
		}
	}
	for field, pattern := range map[string]string{"error": e.Error, "output": e.Output, "forbid": e.Forbid} {
		if err := s.checkPattern(at(path, field), pattern); err != nil {
			return err
		}
	}
	return nil
}

func (s source) checkRule(path []string, id string) error {
	if _, ok := diagnose.Lookup(id); ok {
		return nil
	}
	var known []string
	for _, r := range diagnose.Rules() {
		known = append(known, r.ID)
	}
	return s.errorf(path, "unknown rule %q%s", id, catalog.Suggest(id, known))
}
