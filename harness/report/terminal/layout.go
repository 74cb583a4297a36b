package terminal

import (
	"strings"

	"github.com/charmbracelet/lipgloss"
)

// indent wraps text at spaces to width and puts columns spaces before each
// line. A word that is longer than a line stays whole, so that a path or a
// command can still be copied.
func indent(text string, columns, width int) string {
	margin := strings.Repeat(" ", columns)
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		lines = append(lines, wrap(line, width-columns)...)
	}
	return margin + strings.Join(lines, "\n"+margin)
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range words(text) {
		if line != "" && lipgloss.Width(line)+lipgloss.Width(word) > width {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		if line == "" {
			word = strings.TrimLeft(word, " ")
		}
		line += word
	}
	return append(lines, line)
}

// words splits text before each run of spaces, which stays with its word: the
// columns that labels make must survive.
func words(text string) []string {
	var list []string
	start := 0
	for at := 1; at < len(text); at++ {
		if text[at] == ' ' && text[at-1] != ' ' {
			list = append(list, text[start:at])
			start = at
		}
	}
	return append(list, text[start:])
}

// flow joins parts with gap and breaks between parts, never within one.
func flow(parts []string, gap string, width int) string {
	var b strings.Builder
	column := 0
	for _, part := range parts {
		size := lipgloss.Width(part)
		switch {
		case column == 0:
		case column+len(gap)+size > width:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(gap)
			column += len(gap)
		}
		b.WriteString(part)
		column += size
	}
	return b.String()
}

// paint styles line by line: lipgloss pads the lines of one text to one width.
func paint(style lipgloss.Style, text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = style.Render(line)
	}
	return strings.Join(lines, "\n")
}

func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-lipgloss.Width(text)))
}

// cut shortens text to columns, with an ellipsis in place of what it lost.
func cut(text string, columns int) string {
	if lipgloss.Width(text) <= columns {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && lipgloss.Width(string(runes)) > columns-1 {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
