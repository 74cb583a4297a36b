// Package docker runs PostgreSQL in a container: it finds the daemon, gets the
// image, and runs a cluster of our own in it, published on a loopback port.
//
// Settings and the log's format belong to package cluster; of an image only the
// server's programs and the user postgres are used, not its entry point. The
// daemon is authoritative about containers, the supervisor in one about the
// postmaster: its standard input is a connection of ours, so that the container
// ends, and the daemon removes it, however this process dies. Pids are those of
// the container.
//
// It uses testcontainers-go because that finds daemons in all their places, and
// labels what it makes for its reaper; the rest goes through the client of
// moby, which testcontainers uses as well.
package docker
