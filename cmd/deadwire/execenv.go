package main

import (
	"net"
	"net/netip"
	"os"
	"strconv"
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
		"{password}", values["PGPASSWORD"], "{database}", values["PGDATABASE"], "{url}", values["DATABASE_URL"])
	for _, entry := range f.env {
		name, template, found := strings.Cut(entry, "=")
		if !found || name == "" {
			return nil, usageError("--env %q: want NAME=TEMPLATE", entry)
		}
		env = append(env, name+"="+fill.Replace(template))
	}
	return env, nil
}

// redirects returns the addresses, as the witness names them, whose connects are
// sent to the tap: the server's own, and those that the user named.
func (f *execFlags) redirects(lane *harness.Lane) (map[string]bool, error) {
	wanted := map[string]bool{}
	network, upstream := lane.Upstream()
	addresses := []string{upstream}
	if network == "unix" {
		addresses = nil
	}
	for _, address := range f.redirect {
		if address == "none" {
			addresses = nil
			continue
		}
		addresses = append(addresses, address)
	}
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, usageError("--redirect %s: want HOST:PORT: %w", address, err)
		}
		hosts, err := net.LookupHost(host)
		if err != nil {
			return nil, usageError("--redirect %s: %w", address, err)
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, usageError("--redirect %s: want HOST:PORT: %w", address, err)
		}
		for _, host := range hosts {
			ip, err := netip.ParseAddr(host)
			if err != nil {
				continue
			}
			wanted[netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(number)).String()] = true
			if ip.IsLoopback() { // a server on one of them is mostly on both
				wanted[netip.AddrPortFrom(netip.IPv6Loopback(), uint16(number)).String()] = true
				wanted[netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(number)).String()] = true
			}
		}
	}
	return wanted, nil
}

// unmapped returns an address of IPv4 in IPv6 as that of IPv4.
func unmapped(remote string) string {
	if at, err := netip.ParseAddrPort(remote); err == nil {
		return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()).String()
	}
	return remote
}
