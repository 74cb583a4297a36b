package faultstest_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gotest.tools/v3/assert"

	"deadwire/faults/catalog"
	"deadwire/faults/faultstest"
)

// stage is short for what every play is about.
type stage = faultstest.Stage

// plays are all plays. Every kind of fault must be among them.
func plays() []faultstest.Play {
	return slices.Concat(linkPlays(), livePlays(), messagePlays(), backendPlays(), limitPlays(), processPlays(), computePlays(), forkPlays(), sourcePlays())
}

func TestEveryFaultActsAndHeals(t *testing.T) {
	t.Parallel()
	for _, p := range plays() {
		t.Run(fmt.Sprintf("%s%+v", p.Fault.Name(), p.Fault), func(t *testing.T) {
			t.Parallel()
			faultstest.Run(t, rig, p)
		})
	}
}

func TestEveryFaultHasAPlay(t *testing.T) {
	t.Parallel()
	var played []string
	for _, p := range plays() {
		played = append(played, reflect.TypeOf(p.Fault).String())
	}
	for _, f := range catalog.All() {
		assert.Check(t, slices.Contains(played, reflect.TypeOf(f).String()), "no play of %s", f.Name())
	}
}

// soon is a deadline of a client that is expected to run out.
const soon = 300 * time.Millisecond

// sqlstate returns the code of the error that the server told, or "".
func sqlstate(err error) string {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code
	}
	return ""
}

// hangup are the words by which drivers say that a session's stream has ended.
var hangup = []string{"EOF", "conn closed", "reset by peer", "broken pipe"}

// loses checks that a session is lost, with an error that says so in these words
// or in those of a stream that has ended.
func loses(s *stage, words ...string) {
	s.T.Helper()
	_, err := s.Query(s.Client(), faultstest.Patience, "select 'lost'")
	assert.Assert(s.T, err != nil, "the session lives on")
	says(s, err, words...)
}

// says checks that an error speaks of a lost session.
func says(s *stage, err error, words ...string) {
	s.T.Helper()
	words = append(words, hangup...)
	assert.Assert(s.T, slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) }), "%v", err)
}

// hearsNothing checks that nothing answers in time, while the server keeps the session.
func hearsNothing(s *stage) {
	s.T.Helper()
	_, err := s.Query(s.Client(), soon, "select 'unheard'")
	assert.Assert(s.T, pgconn.Timeout(err), "%v", err)
	assert.Equal(s.T, s.Backends(), 1)
}

// answers checks that a session is as good as ever.
func answers(s *stage) {
	s.T.Helper()
	text, err := s.Query(s.Client(), faultstest.Patience, "select 'here'")
	assert.NilError(s.T, err)
	assert.Equal(s.T, text, "here")
}

// takes checks that something lasts at least so long.
func takes(s *stage, least time.Duration, do func()) {
	s.T.Helper()
	begun := time.Now()
	do()
	took := time.Since(begun)
	assert.Assert(s.T, took >= least, "it took %s, want %s or more", took, least)
}
