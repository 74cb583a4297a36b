package tap

import "bytes"

// limits of what a session remembers about its statements
const (
	statementsMax = 1024
	labelsMax     = 256
	labelMax      = 64
)

// statement is what is known of a prepared statement or a portal.
type statement struct {
	verb  string
	label string
}

// commits reports whether running it ends a transaction with an unknown outcome
// until the answer comes.
func (s statement) commits() bool { return s.verb == "COMMIT" || s.verb == "END" }

// names keeps statements by name. The unnamed one has its own place, so that the
// usual traffic allocates nothing.
type names struct {
	unnamed statement
	named   map[string]statement
}

func (n *names) get(name []byte) statement {
	if len(name) == 0 {
		return n.unnamed
	}
	return n.named[string(name)]
}

func (n *names) set(name []byte, s statement) {
	if len(name) == 0 {
		n.unnamed = s
		return
	}
	if known, ok := n.named[string(name)]; ok && known == s {
		return
	}
	if n.named == nil {
		n.named = make(map[string]statement)
	}
	for any := range n.named { // full: forgetting one at random costs a label, never truth
		if len(n.named) < statementsMax {
			break
		}
		delete(n.named, any)
	}
	n.named[string(name)] = s
}

func (n *names) remove(name []byte) {
	if len(name) == 0 {
		n.unnamed = statement{}
		return
	}
	delete(n.named, string(name))
}

func (n *names) clear() {
	n.unnamed = statement{}
	clear(n.named)
}

// labels makes one string of each label, so that a message costs no allocation.
type labels struct{ known map[string]string }

func (l *labels) intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := l.known[string(b)]; ok {
		return s
	}
	if l.known == nil || len(l.known) >= labelsMax {
		l.known = make(map[string]string)
	}
	s := string(b)
	l.known[s] = s
	return s
}

// scan finds the first keyword of SQL text and the label in a comment before it.
// rest is what follows the keyword. A word that begins no command of PostgreSQL
// yields no verb: it may be anything, even a secret pasted into the wrong place.
func scan(sql []byte) (verb string, label, rest []byte) {
	for len(sql) > 0 {
		switch c := sql[0]; {
		case c == ' ', c == '\t', c == '\n', c == '\r', c == '\f', c == '\v', c == '(', c == ';':
			sql = sql[1:]
		case bytes.HasPrefix(sql, []byte("--")):
			_, sql, _ = bytes.Cut(sql, []byte("\n"))
		case bytes.HasPrefix(sql, []byte("/*")):
			var inner []byte
			inner, sql = cutComment(sql)
			if inner = bytes.TrimSpace(inner); label == nil && isLabel(inner) {
				label = inner
			}
		default:
			verb, rest = cutKeyword(sql)
			return verb, label, rest
		}
	}
	return "", label, nil
}

// cutComment takes a block comment off; PostgreSQL's comments nest.
func cutComment(sql []byte) (inner, rest []byte) {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch {
		case sql[i] == '/' && sql[i+1] == '*':
			depth++
			i++
		case sql[i] == '*' && sql[i+1] == '/':
			depth--
			i++
		}
		if depth == 0 {
			return sql[2 : i-1], sql[i+1:]
		}
	}
	return nil, nil
}

func isLabel(b []byte) bool {
	if len(b) == 0 || len(b) > labelMax {
		return false
	}
	for _, c := range b {
		if !isWord(c) && bytes.IndexByte([]byte(":./ -"), c) < 0 {
			return false
		}
	}
	return true
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// cutKeyword takes the first word off and names it when it is a command.
func cutKeyword(sql []byte) (string, []byte) {
	var upper [16]byte
	n := 0
	for n < len(sql) && n < len(upper) && isWord(sql[n]) {
		upper[n] = sql[n]
		if c := sql[n]; c >= 'a' && c <= 'z' {
			upper[n] = c - 'a' + 'A'
		}
		n++
	}
	return commands[string(upper[:n])], sql[n:]
}

// commands are the first words of PostgreSQL's SQL commands and command tags.
var commands = commandSet("ABORT", "ALTER", "ANALYZE", "BEGIN", "CALL", "CHECKPOINT", "CLOSE", "CLUSTER", "COMMENT",
	"COMMIT", "COPY", "CREATE", "DEALLOCATE", "DECLARE", "DELETE", "DISCARD", "DO", "DROP", "END", "EXECUTE",
	"EXPLAIN", "FETCH", "GRANT", "IMPORT", "INSERT", "LISTEN", "LOAD", "LOCK", "MERGE", "MOVE", "NOTIFY", "PREPARE",
	"REASSIGN", "REFRESH", "REINDEX", "RELEASE", "RESET", "REVOKE", "ROLLBACK", "SAVEPOINT", "SECURITY", "SELECT",
	"SET", "SHOW", "START", "TABLE", "TRUNCATE", "UNLISTEN", "UPDATE", "VACUUM", "VALUES", "WITH",
	// the replication protocol's own commands
	"BASE_BACKUP", "CREATE_REPLICATION_SLOT", "DROP_REPLICATION_SLOT", "IDENTIFY_SYSTEM", "START_REPLICATION",
	"TIMELINE_HISTORY")

func commandSet(words ...string) map[string]string {
	set := make(map[string]string, len(words))
	for _, w := range words {
		set[w] = w
	}
	return set
}
