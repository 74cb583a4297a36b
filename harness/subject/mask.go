package subject

import (
	"regexp"
	"slices"
	"strings"
)

// masked stands in the place of a secret.
const masked = "xxxxx"

// secrets finds passwords in text: in URLs (scheme://user:password@host, where
// the password may hold an unescaped @), in connection strings and query
// parameters (password=…).
type secrets struct {
	url, pair, flag *regexp.Regexp
}

func newSecrets() secrets {
	return secrets{
		url:  regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/?#@]*:)[^\s/?#"']*@`),
		pair: regexp.MustCompile(`(?i)((?:password|passwd|pwd)\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&'";]+)`),
		flag: regexp.MustCompile(`(?i)^--?[a-z-]*(?:password|passwd)$`),
	}
}

// text returns a line without the passwords that could be recognised.
func (s secrets) text(line string) string {
	if strings.Contains(line, "://") {
		line = s.url.ReplaceAllString(line, "${1}"+masked+"@")
	}
	return s.pair.ReplaceAllString(line, "${1}"+masked)
}

// argv returns a command line without passwords, also those that follow a flag.
func (s secrets) argv(argv []string) []string {
	clean := slices.Clone(argv)
	for n, argument := range argv {
		clean[n] = s.text(argument)
		if n > 0 && s.flag.MatchString(argv[n-1]) {
			clean[n] = masked
		}
	}
	return clean
}
