// Package local runs PostgreSQL from binaries that are installed on this machine:
// it finds them, keeps an initialised data folder per version in a cache, clones it
// for each server, and runs the postmaster as a child of this process.
//
// It does not know what is done with the server; settings and the log's format
// belong to package cluster. The kernel is authoritative about processes: no pid
// is signalled that is not our child, or told from a recycled one by its start time.
//
// On Linux a server ends with the process that started it, however that dies. On
// other systems a killed run leaves its server to the next run, which sweeps it.
package local
