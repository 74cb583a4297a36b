package terminal

import (
	"io"
	"os"
	"strconv"

	// Chosen because it measures styled text as terminals do and styles per
	// writer, not per process.
	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/term"
	"github.com/muesli/termenv"

	"deadwire/harness/verdict"
)

// widths of a screen, in columns
const (
	widthMin     = 60
	widthMax     = 120
	widthDefault = 80
)

// Screen is what may be written where: the only place that knows about
// terminals and the variables that speak about them.
type Screen struct {
	Out         io.Writer // results
	Err         io.Writer // progress
	Width       int       // columns, clamped to 60…120; default 80
	Colour      bool
	Interactive bool // Err is a terminal on which a line may be rewritten
}

// Detect returns the screen of a process. Colour needs a terminal; NO_COLOR
// (not empty) forbids it, then FORCE_COLOR (neither empty nor 0) demands it.
// TERM=dumb and CI mean that no line is rewritten and, without FORCE_COLOR,
// that nothing is coloured. COLUMNS beats the terminal's own width.
func Detect(stdout, stderr *os.File, getenv func(string) string) Screen {
	plain := getenv("TERM") == "dumb" || getenv("CI") != ""
	s := Screen{Out: stdout, Err: stderr, Width: widthDefault}
	s.Interactive = isTerminal(stderr) && !plain
	switch forced := getenv("FORCE_COLOR"); {
	case getenv("NO_COLOR") != "":
	case forced != "" && forced != "0":
		s.Colour = true
	default:
		s.Colour = isTerminal(stdout) && !plain
	}
	if width, _, err := term.GetSize(stdout.Fd()); err == nil && width > 0 {
		s.Width = width
	}
	if columns, err := strconv.Atoi(getenv("COLUMNS")); err == nil && columns > 0 {
		s.Width = columns
	}
	return s
}

func isTerminal(file *os.File) bool { return term.IsTerminal(file.Fd()) }

func (s Screen) withDefaults() Screen {
	if s.Out == nil {
		s.Out = io.Discard
	}
	if s.Err == nil {
		s.Err = io.Discard
	}
	if s.Width == 0 {
		s.Width = widthDefault
	}
	s.Width = min(max(s.Width, widthMin), widthMax)
	return s
}

// palette holds the few styles that are used. Colour is never the only sign:
// every coloured word also says what it means.
type palette struct {
	dim, bold lipgloss.Style
	verdicts  map[verdict.Verdict]lipgloss.Style
}

func newPalette(s Screen) palette {
	renderer := lipgloss.NewRenderer(s.Out)
	renderer.SetColorProfile(termenv.Ascii)
	if s.Colour {
		renderer.SetColorProfile(termenv.ANSI)
	}
	colour := func(code string) lipgloss.Style { return renderer.NewStyle().Foreground(lipgloss.Color(code)) }
	return palette{
		dim:  renderer.NewStyle().Faint(true),
		bold: renderer.NewStyle().Bold(true),
		verdicts: map[verdict.Verdict]lipgloss.Style{
			verdict.Pass:         colour("2"),
			verdict.Fail:         colour("1").Bold(true),
			verdict.Undetermined: colour("3").Bold(true),
			verdict.Skip:         renderer.NewStyle().Faint(true),
		},
	}
}
