package cluster

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"deadwire/harness/pg"
)

// sizes of what is generated, and the iterations that PostgreSQL uses by default
const (
	passwordBytes = 16
	saltBytes     = 16
	iterations    = 4096
)

// NewPassword returns a random password of 32 hexadecimal digits.
func NewPassword() pg.Password {
	random := make([]byte, passwordBytes)
	_, _ = rand.Read(random) // never fails, see crypto/rand
	return pg.Password(hex.EncodeToString(random))
}

// Verifier returns what PostgreSQL stores for an ASCII password (RFC 5802,
// RFC 7677; the text form is that of pg_authid.rolpassword). ALTER ROLE takes
// it in place of the password, which so never travels and is never logged.
func Verifier(password pg.Password) (string, error) {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt)
	return verifier(password, salt)
}

func verifier(password pg.Password, salt []byte) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password.Reveal(), salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive SCRAM keys: %w", err)
	}
	clientKey := mac(salted, "Client Key")
	storedKey := sha256.Sum256(clientKey)
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s",
		iterations, encode(salt), encode(storedKey[:]), encode(mac(salted, "Server Key"))), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
