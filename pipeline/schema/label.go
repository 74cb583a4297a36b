package schema

import "strings"

const (
	labelOpens  = "/* conveyor:"
	labelCloses = " */"
)

// Label returns the name in a statement's comment label, or "" when the
// statement has none.
func Label(sql string) string {
	rest, found := strings.CutPrefix(sql, labelOpens)
	if !found {
		return ""
	}
	label, _, found := strings.Cut(rest, labelCloses)
	if !found {
		return ""
	}
	return label
}
