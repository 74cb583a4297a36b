package diagnose

import "slices"

// RuleUnknown is the rule of an ending that no other rule explains; its message
// says what evidence is missing.
const RuleUnknown = "unknown"

// ruleDied is the rule of a session that the kernel closed for a process.
const ruleDied = "process.died"

// Rule is one entry of the catalogue: what a diagnosis with this id means.
type Rule struct {
	ID       string
	Family   string // of the family of bugs, such as F03; empty for ordinary endings
	Sentence string // what happened, in one sentence
	Tells    string // the signature that tells it from its neighbours
	Mend     string // what to change
	Ordinary bool   // an ending with this rule is as it should be
}

// Rules returns the catalogue, ordered by id.
func Rules() []Rule {
	rules := slices.Clone(catalogue())
	slices.SortFunc(rules, func(a, b Rule) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return rules
}

// Lookup returns the rule with that id.
func Lookup(id string) (Rule, bool) {
	for _, r := range catalogue() {
		if r.ID == id {
			return r, true
		}
	}
	return Rule{}, false
}

func catalogue() []Rule {
	return slices.Concat(forkRules(), processRules(), serverRules(), networkRules(), ordinaryRules(), []Rule{silentDrop(), clientGone(), serverRefused()})
}

// forkRules: sessions in more than one process.
func forkRules() []Rule {
	return []Rule{
		{
			ID: "fork.inherited-terminate", Family: "F03",
			Sentence: "A process that had only inherited the session closed it: Terminate (or shutdown) went over the shared socket and ended the session of its opener too.",
			Tells:    "Terminate written by a pid that did not connect, while the opener still holds the socket. The server logs an ordinary disconnection, or nothing.",
			Mend: "In the child, forget inherited connections without closing them, and connect anew: psycopg: drop the reference, never close(); SQLAlchemy: engine.dispose(close=False) in the child; " +
				"Django: connections are per process, set connection.connection = None; ActiveRecord: discard!; DBI: AutoInactiveDestroy; Go: never pass a session's descriptor on.",
		},
		{
			ID: "fork.shared-query", Family: "F01",
			Sentence: "Two processes sent requests over one session: each reads whatever answer comes first, so results change hands, mostly without an error.",
			Tells:    "Requests written by more than one pid on one socket, while both live. One backend pid, a silent server.",
			Mend:     "Give each process a session of its own: connect after fork, key pools by pid, and forget inherited handles in the child.",
		},
		{
			ID: "fork.shared-tls", Family: "F02",
			Sentence: "Two processes sent over one inherited TLS session: each counts its records by itself, so PostgreSQL cannot authenticate one of them and hangs up.",
			Tells:    "Records written by more than one pid on one socket, then the server's alert; its log says \"decryption failed or bad record mac\". No overlap in time is needed.",
			Mend:     "As for fork.shared-query: connect after fork. Turning TLS off would only make the error silent.",
		},
		{
			ID: "fork.held-by-descendant", Family: "F06",
			Sentence: "The process that opened the session is gone, but a descendant still holds its socket: PostgreSQL keeps the session, its transaction and its locks.",
			Tells:    "The opener exited, no FIN followed, and the socket is in another process's descriptor table.",
			Mend:     "Keep database sockets close-on-exec (the default of libpq and Go), start programs with close_fds, and close inherited descriptors in children that do not exec.",
		},
		{
			ID: "fork.opener-left", Family: "F04",
			Sentence: "The opener closed the session while a process that had inherited it went on using it.",
			Tells:    "Terminate by the connecting pid, and later requests on the same socket by another.",
			Mend:     "Connect after daemonising or forking, in the process that will use the session.",
		},
		threadsLostRule(),
	}
}

// processRules: what looks like a matter of sessions and is one of processes.
func processRules() []Rule {
	return []Rule{
		{
			ID: ruleBrokenPool, Family: "N2",
			Sentence: "A worker of a process pool was killed, and the pool's parent ended all the others: every session of theirs closed, and none was at fault.",
			Tells:    "One child dies of a signal, its siblings die of SIGTERM right after it, and their parent lives on. The wire is clean.",
			Mend: "Find out what killed the first worker. Python: ProcessPoolExecutor raises BrokenProcessPool and is of no further use: make a new one and submit again what " +
				"had no result, or run what may crash in a process of its own.",
		},
		threadsShareRule(),
	}
}

// serverRules: sessions that the server ended or refused.
func serverRules() []Rule {
	return []Rule{
		{
			ID: "backend.admin-terminate", Family: "F08",
			Sentence: "PostgreSQL ended the session on an administrator's order or because it was shutting down (57P01).",
			Tells:    "ErrorResponse FATAL 57P01 before the server's FIN.",
			Mend:     "Treat 57P01 as the loss of this session only: drop it, connect anew, and repeat work only when no part of it may have been carried out.",
		},
		{
			ID: "backend.crash-restart", Family: "F11",
			Sentence: "The whole server was in a crash or restart window: a server process died abnormally and every session was ended, or the server was stopping or starting and took none.",
			Tells:    "All sessions of the server end within milliseconds (57P02, or a bare FIN for the victim), then 57P03 or refusals until recovery is done.",
			Mend:     "Find what killed the backend (out of memory, kill -9, a crash in an extension); reconnect with back-off and jitter.",
		},
		{
			ID: "backend.session-timeout", Family: "F10",
			Sentence: "A server time limit ended the session (25P03 idle in transaction, 57P05 idle, 25P04 transaction).",
			Tells:    "The FATAL's SQLSTATE, at an age since the last answer that equals the setting.",
			Mend:     "Do not wait on other things inside a transaction; keep the pool's idle time below the server's limit.",
		},
		{
			ID: "capacity.exhausted", Family: "F07",
			Sentence: "PostgreSQL refused the session: no connection slot was left (53300).",
			Tells:    "ErrorResponse 53300 in answer to the start-up message.",
			Mend:     "Budget pool sizes as server limit divided by processes; look for sessions that are never given back.",
		},
	}
}

// networkRules: what happens on the way, and to a COMMIT on it.
func networkRules() []Rule {
	return []Rule{
		{
			ID: "network.closed", Family: "F14",
			Sentence: "Something on the way closed the session cleanly (FIN): neither end had asked for it.",
			Tells:    "FIN on both legs, without Terminate from the subject or an error from the server.",
			Mend:     "Look for a middlebox, pooler or load balancer with an idle limit; set keepalives below it, and check connections when they are borrowed.",
		},
		{
			ID: "network.reset", Family: "F14",
			Sentence: "Something on the way reset the session (RST).",
			Tells:    "RST on both legs, without Terminate from the subject or an error from the server.",
			Mend:     "As for network.closed; a firewall that rejects, or a host that lost its state, answers with RST.",
		},
		{
			ID: "network.blackhole", Family: "F13",
			Sentence: "Requests went out and nothing came back: the way swallowed the traffic without closing it.",
			Tells:    "A request is outstanding, both sockets stay open, no byte passes; at last the client's own deadline ends it.",
			Mend:     "Give every call a deadline, cancel and close included; set tcp_user_timeout beside keepalives.",
		},
		{
			ID: "txn.ambiguous-commit", Family: "F21",
			Sentence: "The session was lost between COMMIT and its answer: the client cannot know whether the transaction is durable.",
			Tells:    "COMMIT sent, no CommandComplete delivered; whether the server produced one decides.",
			Mend:     "Report \"outcome unknown\"; before repeating look the work up by an idempotency key, or ask pg_xact_status.",
		},
	}
}

// ordinaryRules: endings that are as they should be, and what is left over.
func ordinaryRules() []Rule {
	return []Rule{
		{
			ID: "process.died", Ordinary: true,
			Sentence: "The process that held the session ended, and the kernel closed its socket.",
			Tells:    "FIN (or RST, with unread data) at the moment of the last holder's exit, without Terminate.",
			Mend:     "Nothing is wrong with the session; find out why the process ended: its exit code or signal is in the evidence.",
		},
		{
			ID: "process.handed-over", Ordinary: true,
			Sentence: "The session was closed by a process that had taken it over: its opener had let go of it before.",
			Tells:    "Terminate by another pid than the opener's, after the opener's descriptor was gone.",
			Mend:     "Nothing: handing a connection over is legal.",
		},
		{
			ID: "close.ordinary", Ordinary: true,
			Sentence: "Its opener closed the session in the ordinary way.",
			Tells:    "Terminate by the opener, and nobody else uses the session afterwards.",
			Mend:     "Nothing.",
		},
		{
			ID:       RuleUnknown,
			Sentence: "The evidence does not say who ended the session.",
			Tells:    "The ending's message says what was seen and what is missing.",
			Mend:     "Run again with the exact witness (deadwire doctor says what it needs) and both taps.",
		},
	}
}
