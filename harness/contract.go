package harness

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// rootName is the file, in the folder of a run of a subject, of the certificate by
// which it can verify a front tap that terminates TLS.
const rootName = "deadwire-ca.crt"

var errNoDir = errors.New("TLS is to be terminated, and there is no folder for the certificate by which to verify it")

// writeRoot offers the front tap's certificate to the subject.
func (l *Lane) writeRoot(dir string) error {
	root := l.Front.RootPEM()
	if root == nil {
		return nil
	}
	if dir == "" {
		return errNoDir
	}
	path, err := filepath.Abs(filepath.Join(dir, rootName))
	if err != nil {
		return fmt.Errorf("offer the certificate: %w", err)
	}
	l.root = path
	if err := os.WriteFile(path, root, 0o644); err != nil { // it is no secret, and the subject may become another user
		return fmt.Errorf("offer the certificate: %w", err)
	}
	return nil
}

// sslMode is what the subject is told to ask for.
func (l *Lane) sslMode() string {
	if l.root != "" {
		return "require"
	}
	return "disable"
}

// URL returns the database's address as the subject sees it: through the front
// tap, with the password in it.
func (l *Lane) URL() string {
	a := l.Database.Server().Address()
	u := url.URL{
		Scheme: "postgres", Host: l.Front.Addr().String(), Path: "/" + l.Database.Name(),
		User: url.UserPassword(a.User, a.Password.Reveal()), RawQuery: "sslmode=" + l.sslMode(),
	}
	return u.String()
}

// Env returns the environment of a subject: deadwire's own without what could
// lead past the tap, and the variables of the contract.
func (l *Lane) Env() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "DEADWIRE_") && !strings.HasPrefix(entry, "DATABASE_URL=") {
			env = append(env, entry)
		}
	}
	env = append(env, l.Contract()...)
	return append(env, l.rig.cfg.Env...)
}

// Contract returns the variables, NAME=VALUE, that lead a subject to the front tap.
func (l *Lane) Contract() []string {
	a := l.Database.Server().Address()
	host, port, _ := net.SplitHostPort(l.Front.Addr().String())
	contract := []string{
		"PGHOST=" + host, "PGPORT=" + port, "PGUSER=" + a.User, "PGPASSWORD=" + a.Password.Reveal(),
		"PGDATABASE=" + l.Database.Name(), "PGSSLMODE=" + l.sslMode(), "DATABASE_URL=" + l.URL(), "DEADWIRE_URL=" + l.URL(),
	}
	if l.root != "" {
		contract = append(contract, "PGSSLROOTCERT="+l.root)
	}
	return contract
}
