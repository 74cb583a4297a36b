package ocr

import (
	"iter"
	"regexp"
	"strconv"
	"strings"
)

// line is what one reading of the collector line says
type line struct {
	set, number string
	total       int  // the set's size as printed; 0: none
	known       bool // the set code exists, or none was read
}

// The forms in which sets print a number: with the set's size, after a rarity
// letter, alone. A digit may have been read as a letter that looks like it.
var numberForms = []*regexp.Regexp{
	regexp.MustCompile(`(?:^|[^0-9A-Za-z])([0-9OoQ@Il|SBZ]{1,5})([a-z])?\s?/\s?([0-9OoQ@Il|SBZ]{2,5})`),
	regexp.MustCompile(`(?:^|[^0-9A-Za-z])[CURMLSTPB]\s+([0-9OoQ@Il|SBZ]{3,5}?)([a-z])?()(?:$|[^0-9A-Za-z/])`),
	regexp.MustCompile(`(?:^|[^0-9A-Za-z/])([0-9]{1,5})([a-z])?()(?:$|[^0-9A-Za-z/])`),
}

var (
	asDigits = strings.NewReplacer("O", "0", "o", "0", "Q", "0", "@", "0", "I", "1", "l", "1", "|", "1", "S", "5", "B", "8", "Z", "2")
	language = regexp.MustCompile(`^(.*[A-Za-z0-9])\s*[^A-Za-z0-9]*\s*\b?(EN|DE|FR|IT|ES|PT|JA|JP|KO|RU|CS|CT|PH|SP)\W*$`)
	words    = regexp.MustCompile(`[A-Za-z0-9]+`)
)

// parseLine finds set code and number in the text of the collector line.
func parseLine(text string, lexicon *Lexicon) line {
	var found line
	found.number, found.total = parseNumber(text)
	found.set, found.known = parseSet(text, lexicon)
	return found
}

func parseNumber(text string) (number string, total int) {
	for _, form := range numberForms {
		m := form.FindStringSubmatch(text)
		if m == nil || !strings.ContainsAny(m[1], "0123456789") {
			continue
		}
		if digits := strings.TrimLeft(asDigits.Replace(m[1]), "0"); digits != "" {
			total, _ = strconv.Atoi(asDigits.Replace(m[3])) // digits, or nothing
			return digits + m[2], total
		}
	}
	return "", 0
}

// impossible says whether the number is beyond the set's printed size
func (l line) impossible() bool {
	n, err := strconv.Atoi(strings.TrimRight(l.number, "abcdefghijklmnopqrstuvwxyz"))
	return err == nil && l.total > 0 && n > l.total
}

// parseSet prefers the word before a language code, which only modern cards
// have, then any word that is a known code.
func parseSet(text string, lexicon *Lexicon) (code string, known bool) {
	guess := ""
	for row := range strings.Lines(text) {
		m := language.FindStringSubmatch(strings.TrimSpace(row))
		if m == nil {
			continue
		}
		before := words.FindAllString(m[1], -1)
		for i := len(before) - 1; i >= 0; i-- {
			if code, known := codeIn(before[i], lexicon); known {
				return code, true
			}
		}
		if word := before[len(before)-1]; isCode(word) {
			guess = strings.ToLower(word)
		}
	}
	if guess != "" || lexicon.vague() {
		return guess, guess == "" || lexicon.vague()
	}
	for _, word := range words.FindAllString(text, -1) {
		if code := strings.ToLower(word); isCode(word) && lexicon.codes[code] && strings.ContainsAny(code, "abcdefghijklmnopqrstuvwxyz") {
			return code, true
		}
	}
	return "", true
}

// codeIn allows for a bullet that was read as a letter and stuck to the code
func codeIn(word string, lexicon *Lexicon) (string, bool) {
	for _, w := range []string{word, word[:len(word)-1]} {
		if !isCode(w) {
			continue
		}
		if code, known := lexicon.set(w); known {
			return code, true
		}
	}
	return "", false
}

func isCode(word string) bool { return len(word) >= 3 && len(word) <= 6 }

var (
	anchor  = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:[il1|!]{2,3}us(?:trated)?\s*[.,:;]?\s*(?:by\s+)?)([^\n]+)`)
	year    = regexp.MustCompile(`(?:^|[^0-9/])((?:19[89]|20[0-4])[0-9])`)
	notReal = regexp.MustCompile(`(?i)\b(?:proxy|not for sale|play\s?test|not tournament legal|custom card|fan made)\b`)
)

// parseArtist returns the artist's name and whether an anchor stood before it. A
// lexicon decides what is a name; without one only the anchor can tell.
func parseArtist(text string, lexicon *Lexicon) (name string, anchored bool) {
	if m := anchor.FindStringSubmatch(text); m != nil {
		if len(lexicon.names()) == 0 {
			return strings.Trim(strings.TrimSpace(m[1]), ".,;:|"), true
		}
		return lexicon.closest(phrases(m[1])), true
	}
	rows := strings.Split(strings.TrimSpace(text), "\n")
	foot := rows[max(0, len(rows)-4):] // above is the rules text
	return lexicon.closest(phrases(foot...)), false
}

func (l *Lexicon) names() []string {
	if l == nil {
		return nil
	}
	return l.artists
}

// phrases are the runs of up to four words of each row, folded
func phrases(rows ...string) iter.Seq[string] {
	const longest = 4
	return func(yield func(string) bool) {
		for _, row := range rows {
			parts := strings.Fields(row)
			for i := range parts {
				for j := i + 1; j <= min(len(parts), i+longest); j++ {
					if phrase := fold(strings.Join(parts[i:j], "")); phrase != "" && !yield(phrase) {
						return
					}
				}
			}
		}
	}
}

// parseYear returns the last year of a copyright line, 0 for none.
func parseYear(text string) int {
	found := 0
	for row := range strings.Lines(text) {
		for _, at := range year.FindAllStringSubmatchIndex(row, -1) {
			if end := at[3]; end == len(row) || !strings.ContainsAny(row[end:end+1], "0123456789/") {
				found, _ = strconv.Atoi(row[at[2]:end]) // four digits
			}
		}
	}
	return found
}
