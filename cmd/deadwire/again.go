package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"deadwire/harness/rundir"
)

// checkSubject refuses a --subject that cannot be started, and makes its path
// absolute.
func (f *runFlags) checkSubject() error {
	if f.subject == "" {
		return nil
	}
	path, err := filepath.Abs(f.subject)
	if err != nil {
		return usageError("--subject: %w", err)
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return usageError("--subject %s: not an executable file", f.subject)
	}
	f.subject = path
	return nil
}

// again returns the shell command that runs a case again as it was run now, from
// any folder.
func (f *runFlags) again(j job) string {
	which := j.name().String()
	if j.file != "" {
		which = j.file + "/" + j.c.Name
	}
	words := append(ourselves(), "run", which, "--seed", f.seed)
	for _, flag := range []struct{ name, value, usual string }{
		{"subject", f.subject, ""},
		{"postgres", passwordless(f.postgres), "auto"},
		{"postgres-image", f.image, ""},
		{"out", absolute(f.out), absolute(rundir.DefaultRoot)},
	} {
		if flag.value != flag.usual {
			words = append(words, "--"+flag.name, flag.value)
		}
	}
	if f.allowRemote {
		words = append(words, "--allow-remote")
	}
	if f.prove {
		words = append(words, "--prove")
	}
	for n, word := range words {
		words[n] = quoted(word)
	}
	line := strings.Join(words, " ")
	if cwd, err := os.Getwd(); err == nil && (j.file != "" || words[0] == "go") {
		// A program of the user's own may be named relative to where we are now.
		line = "cd " + quoted(cwd) + " && " + line
	}
	return line
}

// execAgain returns the shell command that runs the program of exec again, without
// the passwords on it.
func execAgain() string {
	words := append(ourselves(), rundir.MaskAll(os.Args[1:])...)
	for n, word := range words {
		words[n] = quoted(word)
	}
	line := strings.Join(words, " ")
	if cwd, err := os.Getwd(); err == nil { // the program may be named relative to it
		line = "cd " + quoted(cwd) + " && " + line
	}
	return line
}

// ourselves returns the words that start this program again: its name where PATH
// leads to it, what built it where it was built only to be run once, else its path.
func ourselves() []string {
	self, err := os.Executable()
	if err != nil {
		return []string{"deadwire"}
	}
	if strings.Contains(self, string(filepath.Separator)+"go-build") {
		return []string{"go", "run", "./cmd/deadwire"}
	}
	if found, err := exec.LookPath("deadwire"); err == nil && absolute(found) == self {
		return []string{"deadwire"}
	}
	return []string{self}
}

// passwordless leaves the password out of a URL: who has it gives it by ~/.pgpass
// or PGPASSWORD.
func passwordless(postgres string) string {
	u, err := url.Parse(postgres)
	if err != nil || u.User == nil {
		return postgres
	}
	u.User = url.User(u.User.Username())
	return u.String()
}

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted returns a word as POSIX shells read it.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
