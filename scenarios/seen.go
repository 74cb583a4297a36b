package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"deadwire/harness/event"
)

// wordsMax bounds each list of what was seen.
const wordsMax = 12

// seen says in words which sessions and statements there were, so that who wrote a
// fault's matcher can compare.
func seen(events []event.Event) string {
	roles, statements := map[string]bool{}, map[string]bool{}
	for _, e := range events {
		switch {
		case e.Kind == event.SessionNamed && e.Session.Place == event.Front:
			name := e.Named.ApplicationName
			roles[name[strings.LastIndexByte(name, '/')+1:]] = true
		case e.Kind == event.SessionMessage && e.Message.From == event.Frontend && e.Message.Verb != "":
			statements[statement(e.Message)] = true
		}
	}
	if len(roles) == 0 {
		return "no session came through the tap"
	}
	text := "sessions seen: " + list(roles)
	if len(statements) > 0 {
		text += "; statements near their ends: " + list(statements)
	}
	return text
}

func statement(m *event.Message) string {
	if m.Label == "" {
		return m.Verb
	}
	return m.Verb + " (" + m.Label + ")"
}

func list(words map[string]bool) string {
	sorted := slices.Sorted(maps.Keys(words))
	if at := slices.Index(sorted, ""); at >= 0 {
		sorted[at] = "(without application_name)"
	}
	if more := len(sorted) - wordsMax; more > 0 {
		return strings.Join(sorted[:wordsMax], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(sorted, ", ")
}
