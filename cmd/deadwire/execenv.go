package main

import (
	"os"
	"strings"

	"deadwire/harness"
)

// environment returns the program's: deadwire's own, with the variables that
// decide where libpq and its like connect replaced by the contract's, and the
// user's templates on top.
func (f *execFlags) environment(lane *harness.Lane, owned []string) ([]string, error) {
	contract := lane.Contract()
	replaced := map[string]bool{"PGHOSTADDR": true, "PGSERVICE": true, "PGSERVICEFILE": true}
	values := map[string]string{}
	for _, entry := range contract {
		name, value, _ := strings.Cut(entry, "=")
		replaced[name], values[name] = true, value
	}
	if mode, set := os.LookupEnv("PGSSLMODE"); set && f.tls != "refuse" {
		contract = append(contract, "PGSSLMODE="+mode)
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
