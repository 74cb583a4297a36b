package rundir

import "regexp"

const masked = "***"

var (
	// The password part of a URL's user information. Greedy up to the last @
	// before the path, since careless passwords contain an @ of their own.
	urlPassword = regexp.MustCompile(`(://[^\s/:@]*:)[^\s/]*@`)
	// key=value as in libpq connection strings, URL queries and environments;
	// values may be quoted as libpq does. A value that is masked already comes
	// first, so that masking twice changes nothing.
	keyPassword = regexp.MustCompile(`(?i)(\w*(?:password|passwd)\s*=\s*)(\*\*\*|'(?:[^'\\]|\\.)*'|"[^"]*"|[^\s&'"]+)`)
)

// Mask returns text with the passwords of URLs and of key=value settings
// replaced by stars. It is the last net before text reaches a disk or a
// terminal; whoever creates a text keeps secrets out of it in the first place.
func Mask(text string) string {
	text = urlPassword.ReplaceAllString(text, "${1}"+masked+"@")
	return keyPassword.ReplaceAllString(text, "${1}"+masked)
}

// MaskAll returns a copy of texts, such as a command line, with each masked.
func MaskAll(texts []string) []string {
	clean := make([]string, len(texts))
	for i, text := range texts {
		clean[i] = Mask(text)
	}
	return clean
}
