package witness

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestSoftwareIsToldByItsFiles(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/usr/lib/x86_64-linux-gnu/libpq.so.5.15":                                          libpq,
		"/usr/lib/python3/dist-packages/psycopg2/_psycopg.cpython-311-x86_64-linux-gnu.so": psycopg2,
		"/venv/lib/python3.12/site-packages/psycopg_binary/_psycopg.cpython-312.so":        psycopg3,
		"/usr/lib/python3/dist-packages/asyncpg/protocol/protocol.cpython-311.so":          asyncpg,
		"/usr/lib/python3/dist-packages/sqlalchemy/cprocessors.cpython-311.so":             sqlAlchemy,
		"/usr/lib/x86_64-linux-gnu/ruby/vendor_ruby/3.1.0/pg_ext.so":                       rubyPG,
		"/usr/lib/x86_64-linux-gnu/perl5/5.36/auto/DBD/Pg/Pg.so":                           dbdPG,
		"/usr/lib/php/20220829/pdo_pgsql.so":                                               phpPDO,
		"/usr/lib/php/20220829/pgsql.so":                                                   phpPgsql,
		"/srv/app/lib/postgresql-42.5.5.jar":                                               jdbc,
		"/usr/lib/x86_64-linux-gnu/libpng16.so.16":                                         "",
		"/home/pgsql.source/main.c":                                                        "",
	} {
		assert.Equal(t, softwareOfFile(path), want, path)
	}
	assert.Equal(t, softwareOfModule("github.com/jackc/pgx/v5"), pgx)
	assert.Equal(t, softwareOfModule("github.com/lib/pq"), libPQ)
	assert.Equal(t, softwareOfModule("github.com/lib/pqueue"), "")
}
