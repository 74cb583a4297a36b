// Package tap is a relay that understands PostgreSQL's wire protocol: it forwards
// bytes verbatim, decodes a copy, and records how each session lived and ended. It
// owns what crossed its two legs and in which order, not who sent it (the witness)
// nor what it means (diagnose). The protocol document of PostgreSQL ("Message
// Formats", "Message Flow") is authoritative for what bytes mean.
//
// # Point of view
//
// A session's state is what the subject can know. A message from the frontend
// counts from the moment it arrived here, even when a rule keeps it from the
// server; one from the backend counts once it is passed on. So a cut before COMMIT
// is forwarded and a cut before its answer both find the session "committing", and
// Message.Dropped tells them apart.
//
// # What is never kept
//
// SQL text, bind values, rows, passwords and cancel keys do not reach an event. Of
// a statement only the first keyword and a label in its leading comment are
// recorded, of an authentication message only its type.
package tap
