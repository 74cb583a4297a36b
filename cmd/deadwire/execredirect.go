package main

import (
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"deadwire/harness"
)

// unixScheme begins the address of a Unix socket, as the witness writes it.
const unixScheme = "unix:"

// detour says which connects of the program are sent to the tap, and where to.
type detour struct {
	wanted      map[string]bool // addresses as the witness names them
	tcp, socket string
}

// to is asked about each connect; "" leaves it alone.
func (d *detour) to(remote string) string {
	switch {
	case !d.wanted[unmapped(remote)]:
		return ""
	case strings.HasPrefix(remote, unixScheme):
		return d.socket
	default:
		return d.tcp
	}
}

// unmapped returns an address of IPv4 in IPv6 as that of IPv4.
func unmapped(remote string) string {
	if at, err := netip.ParseAddrPort(remote); err == nil {
		return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()).String()
	}
	return remote
}

// detours returns the redirection of the server's own addresses and of those that
// the user named.
func (f *execFlags) detours(lane *harness.Lane) (detour, error) {
	d := detour{wanted: map[string]bool{}, tcp: lane.Front.Addr().String(), socket: unixScheme + lane.Front.SocketPath()}
	addresses := []string{""}
	for _, address := range f.redirect {
		if address == "none" {
			addresses = nil
			continue
		}
		addresses = append(addresses, address)
	}
	for _, address := range addresses {
		err := d.check(address)
		if address == "" {
			err = d.addServer(lane)
		}
		if err != nil {
			return d, err
		}
	}
	return d, nil
}

// check adds an address of --redirect, if it is one.
func (d *detour) check(address string) error {
	if address == "" || address == "none" {
		return nil
	}
	if d.wanted == nil {
		d.wanted = map[string]bool{}
	}
	if err := d.add(address); err != nil {
		return usageError("--redirect %s: want HOST:PORT or the path of a Unix socket: %w", address, err)
	}
	return nil
}

// addServer adds every address by which the server is reached from here.
func (d *detour) addServer(lane *harness.Lane) error {
	network, upstream := lane.Upstream()
	server := lane.Database.Server().Address()
	if path := server.SocketPath(); path != "" {
		d.addPath(path)
	}
	if network == "unix" {
		d.addPath(upstream)
		return d.add(net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port)))
	}
	return d.add(upstream)
}

// socketDirs are where a server's Unix socket is by default: as PostgreSQL's source
// has it, and as the distributions patch it.
func socketDirs() []string { return []string{"/tmp", "/var/run/postgresql", "/run/postgresql"} }

// add adds HOST:PORT, or the path of a socket. A server on one of the loopback
// addresses is mostly on both, and on the usual socket of that port.
func (d *detour) add(address string) error {
	if strings.HasPrefix(address, "/") {
		d.addPath(address)
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	hosts, err := net.LookupHost(host)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		ip, err := netip.ParseAddr(host)
		if err != nil {
			continue
		}
		d.addIP(ip, uint16(number))
		if ip.IsLoopback() {
			d.addIP(netip.IPv6Loopback(), uint16(number))
			d.addIP(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(number))
			for _, dir := range socketDirs() {
				d.addPath(filepath.Join(dir, ".s.PGSQL."+port))
			}
		}
	}
	return nil
}

func (d *detour) addIP(ip netip.Addr, port uint16) {
	d.wanted[netip.AddrPortFrom(ip.Unmap().WithZone(""), port).String()] = true
}

func (d *detour) addPath(path string) { d.wanted[unixScheme+path] = true }
