// Package harness is the rig, assembled: it starts PostgreSQL and Toxiproxy
// once, and gives each case a database and a lane of its own: taps, link,
// journal and witness. It owns the order in which all of that starts and stops;
// it breaks nothing and judges nothing.
package harness
