package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"deadwire/harness/pg"
)

// User is the superuser of every cluster of ours, Maintenance the database that
// no scenario uses.
const (
	User        = "deadwire"
	Maintenance = "postgres"
)

// HBA is the pg_hba.conf of every cluster of ours: a password everywhere, the
// Unix socket included, so that a tap sees real authentication on either path.
const HBA = `local all all scram-sha-256
local replication all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 scram-sha-256
`

// ContainerHBA is HBA for a server that is published from a network of its own,
// where the other end is not loopback.
const ContainerHBA = `local all all scram-sha-256
host all all all scram-sha-256
`

// setting is one line of postgresql.conf. This table is the only place that
// knows which version has which setting.
type setting struct {
	name, value string
	since       int  // first major version that knows it; 0: all that we support
	fixed       bool // a caller may not change it, since the harness relies on it
}

var table = [...]setting{
	{name: "log_destination", value: "stderr", fixed: true},
	{name: "logging_collector", value: "off", fixed: true},
	{name: "log_line_prefix", value: linePrefix, fixed: true},
	{name: "log_error_verbosity", value: "default", fixed: true},
	{name: "lc_messages", value: "C", fixed: true}, // severities are words of the locale
	{name: "log_timezone", value: "UTC"},
	{name: "timezone", value: "UTC"},
	{name: "log_connections", value: "on"},
	{name: "log_disconnections", value: "on"},
	{name: "log_checkpoints", value: "off"},
	// Statements and bind values never reach the log, so they need not be cut out of it.
	{name: "log_min_error_statement", value: "panic", fixed: true},
	{name: "log_parameter_max_length", value: "0", fixed: true},
	{name: "log_parameter_max_length_on_error", value: "0", fixed: true},
	// The data lives as long as one run. A crash of the server loses nothing
	// without fsync, only one of the machine would.
	{name: "fsync", value: "off"},
	{name: "full_page_writes", value: "off"},
	{name: "synchronous_commit", value: "on"},
	// Nothing may stay behind in /dev/shm: segments are files of the data folder,
	// and are rarely needed, since most fit into the memory set aside at start.
	{name: "dynamic_shared_memory_type", value: "mmap", fixed: true},
	{name: "min_dynamic_shared_memory", value: "16MB", since: 14},
	{name: "huge_pages", value: "off"},
}

// Place is where one server listens.
type Place struct {
	Port      int
	SocketDir string
	Listen    string // listen_addresses; "" = 127.0.0.1
}

// ReservedError says that a setting cannot be changed, since the harness relies on it.
type ReservedError struct {
	Name string
}

func (e *ReservedError) Error() string {
	return fmt.Sprintf("setting %q is reserved: the harness relies on its value", e.Name)
}

// Conf returns the text of a configuration file for a server of the given
// version: the table, the place, and the caller's own settings, which win
// except over the reserved ones.
func Conf(version pg.Version, place Place, own map[string]string) (string, error) {
	values, fixed := map[string]string{}, map[string]bool{}
	for _, s := range table {
		if version.Major >= s.since {
			values[s.name], fixed[s.name] = s.value, s.fixed
		}
	}
	for name, value := range map[string]string{
		"listen_addresses": cmp.Or(place.Listen, "127.0.0.1"),
		"port":             fmt.Sprint(place.Port),
		// A list, in which a path with a comma has to stand in quotes.
		"unix_socket_directories": `"` + strings.ReplaceAll(place.SocketDir, `"`, `""`) + `"`,
	} {
		values[name], fixed[name] = value, true
	}
	for name, value := range own {
		name = strings.ToLower(name)
		if fixed[name] {
			return "", &ReservedError{Name: name}
		}
		values[name] = value
	}
	return render(values), nil
}

func render(values map[string]string) string {
	var text strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, `'`, `''`, "\n", `\n`)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, escape.Replace(values[name]))
	}
	return text.String()
}

// StrategySince is the first major version whose CREATE DATABASE has STRATEGY.
const StrategySince = 15

// InitArgs returns the arguments of initdb for the given version. passwordFile
// holds the first password of User.
func InitArgs(version pg.Version, dataDir, passwordFile string) []string {
	args := []string{
		"--pgdata=" + dataDir, "--username=" + User, "--pwfile=" + passwordFile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync",
	}
	if version.Major >= 14 {
		args = append(args, "--no-instructions")
	}
	if version.Major >= 18 { // checksums became the default; they cost time and protect from nothing here
		args = append(args, "--no-data-checksums")
	}
	return args
}
