package scenarios

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"deadwire/faults/catalog"
)

// validate checks the file against the schema and reports the problem that says
// most, by its place.
func (s source) validate(plain []byte) error {
	schema, err := compiled()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		return err
	}
	failed, ok := schema.Validate(value).(*jsonschema.ValidationError)
	if !ok {
		return nil
	}
	found := s.worst(leaves(failed))
	first := found[0]
	if extra, ok := first.ErrorKind.(*kind.AdditionalProperties); ok {
		word := s.topmost(first.InstanceLocation, extra.Properties)
		return s.errorf(at(first.InstanceLocation, word), "unknown field %q in %s%s", word, place(first.InstanceLocation),
			catalog.Suggest(word, knownAt(schema, first)))
	}
	return s.errorf(first.InstanceLocation, "%s: %s", place(first.InstanceLocation), say(found))
}

// leaves returns the problems that have no deeper cause.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// worst returns the problems at the place to report: the deepest, since of two
// alternatives the one that was meant fits furthest; there an unknown field
// before anything else; and of several such places the first in the file. There
// is more than one problem when a value fits none of its alternatives.
func (s source) worst(all []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	order := func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(
			cmp.Compare(len(b.InstanceLocation), len(a.InstanceLocation)),
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(s.line(a.InstanceLocation...), s.line(b.InstanceLocation...)),
			slices.Compare(a.InstanceLocation, b.InstanceLocation),
			strings.Compare(a.SchemaURL, b.SchemaURL),
		)
	}
	slices.SortFunc(all, order)
	last := 1
	for last < len(all) && slices.Equal(all[last].InstanceLocation, all[0].InstanceLocation) {
		last++
	}
	return all[:last]
}

func rank(e *jsonschema.ValidationError) int {
	if _, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		return 0
	}
	return 1
}

// topmost returns the word of words that stands first below path.
func (s source) topmost(path, words []string) string {
	return slices.MinFunc(words, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.line(at(path, a)...), s.line(at(path, b)...)), strings.Compare(a, b))
	})
}

// say puts the problems of one value in words.
func say(problems []*jsonschema.ValidationError) string {
	if len(problems) > 1 {
		var wanted []string
		for _, p := range problems {
			switch k := p.ErrorKind.(type) {
			case *kind.Const:
				wanted = append(wanted, fmt.Sprintf("%q", k.Want))
			case *kind.Type:
				wanted = append(wanted, "an "+strings.Join(k.Want, " or "))
			}
		}
		if len(wanted) == len(problems) {
			return "it must be " + strings.Join(wanted, " or ")
		}
	}
	switch k := problems[0].ErrorKind.(type) {
	case *kind.Enum:
		return sayEnum(k)
	case *kind.MinProperties:
		return fmt.Sprintf("it has %d entries, at least %d are needed", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("it has %d entries, at most %d are allowed", k.Got, k.Want)
	default:
		return k.LocalizedString(message.NewPrinter(language.English))
	}
}

func sayEnum(k *kind.Enum) string {
	word, ok := k.Got.(string)
	if !ok {
		return k.LocalizedString(message.NewPrinter(language.English))
	}
	var known []string
	for _, want := range k.Want {
		known = append(known, fmt.Sprint(want))
	}
	return fmt.Sprintf("unknown value %q%s", word, catalog.Suggest(word, known))
}

// knownAt returns the field names that the schema allows where e occurred.
func knownAt(root *jsonschema.Schema, e *jsonschema.ValidationError) []string {
	at := findSchema(root, e.SchemaURL, map[*jsonschema.Schema]bool{})
	if at == nil {
		return nil
	}
	var known []string
	for name := range at.Properties {
		known = append(known, name)
	}
	slices.Sort(known)
	return known
}

func findSchema(at *jsonschema.Schema, location string, seen map[*jsonschema.Schema]bool) *jsonschema.Schema {
	if at == nil || seen[at] {
		return nil
	}
	seen[at] = true
	if at.Location == location {
		return at
	}
	next := append(slices.Clone(at.OneOf), at.Ref, at.Items2020)
	for _, p := range at.Properties {
		next = append(next, p)
	}
	if extra, ok := at.AdditionalProperties.(*jsonschema.Schema); ok {
		next = append(next, extra)
	}
	if items, ok := at.Items.(*jsonschema.Schema); ok {
		next = append(next, items)
	}
	for _, n := range next {
		if found := findSchema(n, location, seen); found != nil {
			return found
		}
	}
	return nil
}

func place(path []string) string {
	if len(path) == 0 {
		return "the scenario"
	}
	return strings.Join(path, ".")
}
