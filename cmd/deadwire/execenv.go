package main

import (
	"net/url"
	"os"
	"strings"

	"deadwire/harness"
	"deadwire/harness/tap"
)

// environment returns the program's: deadwire's own, with the variables that
// decide where libpq and its like connect replaced by the contract's, and the
// user's templates on top.
func (f *execFlags) environment(lane *harness.Lane, owned []string) ([]string, error) {
	contract := f.contract(lane)
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
		name, template, _ := strings.Cut(entry, "=")
		env = append(env, name+"="+fill.Replace(template))
	}
	return env, nil
}

// contract returns the lane's variables, with the user's own PGSSLMODE where the
// tap does not refuse TLS.
func (f *execFlags) contract(lane *harness.Lane) []string {
	contract := lane.Contract()
	mode, set := os.LookupEnv("PGSSLMODE")
	if !set || f.tls == string(tap.TLSRefuse) {
		return contract
	}
	for i, entry := range contract {
		for _, ours := range []string{"disable", "require"} {
			entry = strings.Replace(entry, "sslmode="+ours, "sslmode="+url.QueryEscape(mode), 1)
		}
		contract[i] = entry
	}
	return append(contract, "PGSSLMODE="+mode)
}
