package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"deadwire/harness"
	"deadwire/harness/tap"
)

// environment returns the program's: deadwire's own, with the variables that
// decide where libpq and its like connect replaced by the contract's, and the
// user's templates on top.
func (f *execFlags) environment(lane *harness.Lane, dir string, owned []string) ([]string, error) {
	contract, err := f.contract(lane, dir)
	if err != nil {
		return nil, err
	}
	replaced := map[string]bool{"PGHOSTADDR": true, "PGSERVICE": true, "PGSERVICEFILE": true}
	values := map[string]string{}
	for _, entry := range contract {
		name, value, _ := strings.Cut(entry, "=")
		replaced[name], values[name] = true, value
	}
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !replaced[name] && !strings.HasPrefix(name, "DEADWIRE_") {
			env = append(env, entry)
		}
	}
	env = append(append(env, contract...), owned...)
	fill := strings.NewReplacer("{host}", values["PGHOST"], "{port}", values["PGPORT"], "{user}", values["PGUSER"],
		"{password}", values["PGPASSWORD"], "{database}", values["PGDATABASE"], "{url}", values["DATABASE_URL"],
		"{socket}", lane.SocketDir)
	for _, entry := range f.env {
		name, template, found := strings.Cut(entry, "=")
		if !found || name == "" {
			return nil, usageError("--env %q: want NAME=TEMPLATE", entry)
		}
		env = append(env, name+"="+fill.Replace(template))
	}
	return env, nil
}

// rootName is the file, in the run's folder, of the certificate by which a program
// can verify a tap that terminates TLS.
const rootName = "deadwire-ca.crt"

// contract returns the lane's variables, with what the program may want of TLS: its
// own PGSSLMODE, and where the tap terminates TLS also the means to verify it.
func (f *execFlags) contract(lane *harness.Lane, dir string) ([]string, error) {
	contract := lane.Contract()
	mode, set := os.LookupEnv("PGSSLMODE")
	if f.tls == string(tap.TLSRefuse) {
		return contract, nil
	}
	if root := lane.Front.RootPEM(); root != nil {
		path, err := filepath.Abs(filepath.Join(dir, rootName))
		if err != nil {
			return nil, environment(err)
		}
		if err := os.WriteFile(path, root, 0o644); err != nil {
			return nil, environment(err)
		}
		contract = append(contract, "PGSSLROOTCERT="+path)
		if !set {
			mode, set = "require", true
		}
	}
	if !set {
		return contract, nil
	}
	for i, entry := range contract {
		contract[i] = strings.Replace(entry, "sslmode=disable", "sslmode="+url.QueryEscape(mode), 1)
	}
	return append(contract, "PGSSLMODE="+mode), nil
}
