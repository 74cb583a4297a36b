// Package rundir keeps one run on disk: its folder, manifest, logs, links, the
// record of the last run, and how many old runs stay. It does not judge or
// format anything; reports hand it bytes. The folder is authoritative for what
// was recorded, and its lock for whether the run still goes on.
package rundir
