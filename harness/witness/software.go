package witness

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Names of the software that a process was seen to use; the words of reports.
const (
	libpq      = "libpq"
	psycopg2   = "psycopg2"
	psycopg3   = "psycopg 3"
	asyncpg    = "asyncpg"
	sqlAlchemy = "SQLAlchemy"
	rubyPG     = "Ruby pg"
	dbdPG      = "DBD::Pg"
	phpPDO     = "PDO"
	phpPgsql   = "PHP pgsql"
	jdbc       = "JDBC"
	pgx        = "pgx"
	libPQ      = "lib/pq"
)

// softwareOfFile names the software that a file belongs to which a process has mapped
// or open: an extension module, a library, a driver's archive. "" for none.
func softwareOfFile(path string) string {
	base := filepath.Base(path)
	switch {
	case strings.HasPrefix(base, "libpq.so"), strings.HasPrefix(base, "libpq-") && strings.Contains(path, "psycopg2_binary"):
		return libpq
	case strings.Contains(path, "/psycopg2/_psycopg"):
		return psycopg2
	case strings.Contains(path, "/psycopg_c/"), strings.Contains(path, "/psycopg_binary/"):
		return psycopg3
	case strings.Contains(path, "/asyncpg/protocol/"):
		return asyncpg
	case strings.Contains(path, "/sqlalchemy/"):
		return sqlAlchemy
	case base == "pg_ext.so":
		return rubyPG
	case strings.HasSuffix(path, "/DBD/Pg/Pg.so"):
		return dbdPG
	case base == "pdo_pgsql.so":
		return phpPDO
	case base == "pgsql.so":
		return phpPgsql
	case strings.HasPrefix(base, "postgresql") && strings.HasSuffix(base, ".jar"):
		return jdbc
	default:
		return ""
	}
}

// softwareOfModule is softwareOfFile for a module that a Go program was built with.
func softwareOfModule(path string) string {
	switch {
	case strings.HasPrefix(path, "github.com/jackc/pgx"):
		return pgx
	case path == "github.com/lib/pq":
		return libPQ
	default:
		return ""
	}
}

// softwareMax bounds how many processes are remembered.
const softwareMax = 1024

// softwares remembers what each process was seen to use, so that it is looked at once.
type softwares struct {
	mu    sync.Mutex
	known map[int][]string
}

// of returns what a process uses, ascending.
func (s *softwares) of(pid int) []string {
	if pid == 0 {
		return nil
	}
	s.mu.Lock()
	found, known := s.known[pid]
	s.mu.Unlock()
	if known {
		return found
	}
	found = readSoftware(pid)
	slices.Sort(found)
	found = slices.Compact(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= softwareMax {
		s.known = map[int][]string{}
	}
	s.known[pid] = found
	return found
}

// forget drops a process that becomes another program, or ends.
func (s *softwares) forget(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, pid)
}
