// Package pg gives the harness a PostgreSQL server: the interface of a provider
// and of the server that it starts, one administrative connection, and databases
// cloned from migrated templates.
//
// It does not start anything itself (the packages below it do) and knows no
// schema: what goes into a template is the caller's. The server is authoritative
// about what exists in it; nothing here trusts its own memory of a database.
//
// It uses pgx because it is the driver of the pipeline too, speaks the protocol
// natively, and gives SQLSTATEs as data.
package pg
