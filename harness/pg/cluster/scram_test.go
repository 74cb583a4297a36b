package cluster

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// The salt and keys are those of the exchange in RFC 7677, section 3, of which
// the server key can be checked: it signs the server's last message.
func TestVerifierIsThatOfTheRFC(t *testing.T) {
	t.Parallel()
	got, err := verifier("pencil", mustDecode(t, "W22ZaJ0SNY7soEsUEjb6gQ=="))
	assert.NilError(t, err)
	head, keys, found := strings.Cut(strings.TrimPrefix(got, "SCRAM-SHA-256$"), "$")
	assert.Assert(t, found)
	assert.Equal(t, head, "4096:W22ZaJ0SNY7soEsUEjb6gQ==")
	_, serverKey, _ := strings.Cut(keys, ":")
	message := "n=user,r=rOprNGfwEbeRWgbNEkqO," +
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096," +
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	assert.DeepEqual(t, mac(mustDecode(t, serverKey), message), mustDecode(t, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="))
}

func TestPasswordsDiffer(t *testing.T) {
	t.Parallel()
	one, two := NewPassword(), NewPassword()
	assert.Equal(t, len(one.Reveal()), 2*passwordBytes)
	assert.Assert(t, one != two)
}
