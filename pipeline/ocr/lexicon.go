package ocr

import (
	"iter"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Printing is what the reference says that a card may print.
type Printing struct {
	SetCode, Number, Artist string
}

// Lexicon knows the words that cards print. It is read-only once made, so that
// all readers of a process can share one. The zero value knows nothing, and then
// nothing is gated.
type Lexicon struct {
	sets     map[string]string // by folded code; "" when two codes look alike
	codes    map[string]bool
	artists  []string
	byFold   map[string]int32 // artist by folded name
	artistOf map[string]int32 // by set and number
}

// NewLexicon collects the words of all printings.
func NewLexicon(printings iter.Seq[Printing]) *Lexicon {
	l := &Lexicon{sets: map[string]string{}, codes: map[string]bool{}, byFold: map[string]int32{}, artistOf: map[string]int32{}}
	for p := range printings {
		l.addSet(strings.ToLower(p.SetCode))
		l.artistOf[slot(p.SetCode, p.Number)] = l.addArtist(p.Artist) // -1: unknown
	}
	return l
}

func (l *Lexicon) addSet(code string) {
	if l.codes[code] {
		return
	}
	l.codes[code] = true
	alike := foldCode(code)
	if _, taken := l.sets[alike]; taken {
		code = ""
	}
	l.sets[alike] = code
}

func (l *Lexicon) addArtist(name string) int32 {
	folded := fold(name)
	if folded == "" {
		return -1
	}
	known, ok := l.byFold[folded]
	if !ok {
		known = int32(len(l.artists))
		l.artists = append(l.artists, name)
		l.byFold[folded] = known
	}
	return known
}

func slot(set, number string) string {
	return strings.ToLower(set) + " " + strings.TrimLeft(strings.ToLower(number), "0")
}

// set returns the code that a word stands for, allowing for letters that the
// engine takes for each other when that leaves one code only.
func (l *Lexicon) set(word string) (code string, known bool) {
	code = strings.ToLower(word)
	if l == nil || len(l.codes) == 0 || l.codes[code] {
		return code, true
	}
	if alike := l.sets[foldCode(code)]; alike != "" {
		return alike, true
	}
	return code, false
}

// vague says whether the lexicon knows no sets, so that any code may exist
func (l *Lexicon) vague() bool { return l == nil || len(l.codes) == 0 }

// artist returns the artist of a slot, and whether the slot exists
func (l *Lexicon) artist(set, number string) (name string, listed bool) {
	if l == nil {
		return "", false
	}
	at, listed := l.artistOf[slot(set, number)]
	if !listed || at < 0 {
		return "", listed
	}
	return l.artists[at], true
}

// foldCode makes codes equal that differ only in what an engine confuses
func foldCode(code string) string {
	return strings.NewReplacer("o", "0", "q", "0", "i", "1", "l", "1", "s", "5", "b", "8", "z", "2", "g", "6").Replace(code)
}

// fold keeps the letters of a name, without case and accents
func fold(name string) string {
	var out strings.Builder
	for _, r := range norm.NFKD.String(name) {
		if unicode.IsLetter(r) {
			out.WriteRune(unicode.ToLower(r))
		}
	}
	return out.String()
}

// least is the similarity from which a misread name is taken for a known one
const least = 0.8

// closest returns the known artist whose name is among the phrases, the longest
// one, or else is most similar to one of them; "" when none is similar enough or two are equally so.
func (l *Lexicon) closest(phrases iter.Seq[string]) string {
	if l == nil {
		return ""
	}
	best, found := least, ""
	longest := ""
	for phrase := range phrases {
		if _, ok := l.byFold[phrase]; ok && len(phrase) > len(longest) {
			longest = phrase
		}
	}
	if longest != "" {
		return l.artists[l.byFold[longest]]
	}
	for phrase := range phrases {
		if len(phrase) < 6 { // short names are similar to too much
			continue
		}
		for folded, at := range l.byFold {
			switch s := similarity(phrase, folded); {
			case s > best:
				best, found = s, l.artists[at]
			case s == best && found != "" && found != l.artists[at]:
				found = ""
			}
		}
	}
	return found
}

// similarity is one minus the edit distance over the longer length
func similarity(a, b string) float64 {
	longer := max(len(a), len(b))
	if longer == 0 || abs(len(a)-len(b))*5 > longer {
		return 0
	}
	return 1 - float64(distance(a, b))/float64(longer)
}

func abs(n int) int { return max(n, -n) }

// distance is V. Levenshtein's, in one row
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
