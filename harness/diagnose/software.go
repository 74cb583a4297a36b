package diagnose

import (
	"path/filepath"
	"slices"
	"strings"
)

// advice is what to change in programs that use one piece of software.
type advice struct {
	software string
	mend     string
}

// forkAdvice says how each stack keeps a child's hands off an inherited session,
// frameworks before drivers.
func forkAdvice() []advice {
	return []advice{
		{"gunicorn", "gunicorn: connect in post_fork or in the worker, not while --preload loads the application"},
		{"Celery", "Celery: connect in the worker_process_init signal, not when the module is imported"},
		{"Puma", "Puma: disconnect in before_fork, connect in on_worker_boot"},
		{"Unicorn", "Unicorn: disconnect in before_fork, connect in after_fork"},
		{"Django", "Django: connections belong to one process; set connection.connection = None in the child, and do not call close() there"},
		{"SQLAlchemy", "SQLAlchemy: call engine.dispose(close=False) first thing in the child (1.4.33 or later)"},
		{"asyncpg", "asyncpg: start a new event loop and a new pool in the child; neither close() nor terminate() the inherited one, whose epoll descriptor is shared too"},
		{"psycopg 3", "psycopg 3: in the child neither call close() nor leave the connection's \"with\" block; drop the reference and connect anew"},
		{"psycopg2", "psycopg2: in the child drop the reference, never call close(); it leaves a connection of another process alone when it is collected"},
		{"Ruby pg", "Ruby pg: end the child by exit!, which runs no finalizer, so that nothing says goodbye; ActiveRecord: discard! the pool"},
		{"DBD::Pg", "DBI: connect with AutoInactiveDestroy => 1, or set InactiveDestroy on each handle in the child"},
		{"PDO", "PHP: connect after pcntl_fork(); the destructor of an inherited connection says goodbye for whoever ends first"},
		{"PHP pgsql", "PHP: connect after pcntl_fork(); the destructor of an inherited connection says goodbye for whoever ends first"},
		{"pgx", "pgx: never pass a session's descriptor to another program (ExtraFiles, dup)"},
		{"lib/pq", "lib/pq: never pass a session's descriptor to another program (ExtraFiles, dup)"},
		{"JDBC", "JDBC: Java does not fork; look for what hands descriptors on, such as native code"},
		{"libpq", "libpq: never call PQfinish on a connection that another process opened"},
	}
}

// byArgv are programs that are known by the name in their command line.
var byArgv = map[string]string{
	"gunicorn": "gunicorn", "celery": "Celery", "puma": "Puma", "unicorn": "Unicorn", "manage.py": "Django",
}

// software returns what the opener of s was seen to use: by its files and modules,
// its start-up message, and its command line. Ascending.
func (h *history) software(s *session) []string {
	var found []string
	if o := s.front.opened.Opened; o != nil {
		found = append(found, o.Software...)
	}
	if s.front.named != nil && s.front.named.Named.Driver != "" {
		found = append(found, s.front.named.Named.Driver)
	}
	if p := h.processes[s.opener()]; p != nil {
		const named = 3 // an interpreter, an option, a script
		for _, arg := range p.argv[:min(len(p.argv), named)] {
			if name := byArgv[filepath.Base(arg)]; name != "" {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// mendFor is what to change about a rule in a program that uses that software.
func mendFor(id string, software []string) string {
	rule, _ := Lookup(id)
	if !strings.HasPrefix(id, "fork.") || id == "fork.held-by-descendant" || id == ruleThreadsLost {
		return rule.Mend
	}
	var fitting []string
	for _, a := range forkAdvice() {
		bare := a.software != "libpq" || len(fitting) == 0
		if slices.Contains(software, a.software) && bare && !slices.Contains(fitting, a.mend) {
			fitting = append(fitting, a.mend)
		}
	}
	if len(fitting) == 0 {
		return rule.Mend
	}
	return forkLead(id) + " " + strings.Join(fitting, ". ") + "."
}

func forkLead(id string) string {
	if id == "fork.opener-left" {
		return "Connect after daemonising or forking, in the process that will use the session."
	}
	return "In the child, forget inherited connections without closing them, and connect anew."
}
