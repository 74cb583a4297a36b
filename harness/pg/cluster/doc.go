// Package cluster knows what all clusters of our own have in common, however they
// are run: the settings by version, the arguments of initdb, the prefix of the
// log's lines and how to read it back, the verifier of a password, and the choice
// of a port.
//
// It starts no process and writes no file; providers do. The PostgreSQL manual
// (chapters "Server Configuration" and "initdb") is authoritative for every name.
package cluster
