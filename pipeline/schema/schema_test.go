package schema_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/schema/schematest"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestMigrateIsRepeatableAndReversible(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.Empty(t))
	from, to, err := schema.Migrate(t.Context(), conn)
	assert.NilError(t, err)
	assert.Equal(t, from, int32(0))
	assert.Assert(t, to >= 4)
	again, same, err := schema.Migrate(t.Context(), conn)
	assert.NilError(t, err)
	assert.Equal(t, again, to)
	assert.Equal(t, same, to)
	assert.NilError(t, schema.Rollback(t.Context(), conn))
	var tables int
	assert.NilError(t, conn.QueryRow(t.Context(), `select count(*) from information_schema.tables
		where table_schema = 'public' and table_name <> 'conveyor_schema_version'`).Scan(&tables))
	assert.Equal(t, tables, 0)
}

func TestTwoMigrationsAtOnceDoNotCollide(t *testing.T) {
	t.Parallel()
	url := schematest.Empty(t)
	results := make(chan error)
	for range 2 {
		conn := connect(t, url)
		go func() {
			_, _, err := schema.Migrate(t.Context(), conn)
			results <- err
		}()
	}
	assert.NilError(t, <-results)
	assert.NilError(t, <-results)
}

func TestEveryInvariantHoldsOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.Database(t))
	for _, invariant := range schema.Invariants() {
		if invariant.AtRest {
			continue // other tests' sessions may be connected to their own databases, but pids are shared
		}
		rows, err := conn.Query(t.Context(), invariant.SQL)
		assert.NilError(t, err, invariant.Name)
		breaches, err := pgx.CollectRows(rows, pgx.RowTo[string])
		assert.NilError(t, err, invariant.Name)
		assert.Equal(t, len(breaches), 0, invariant.Name)
		assert.Equal(t, schema.Label(invariant.SQL), "check-"+invariant.Name)
	}
}

func TestConstraintsRefuseWhatTheSpecificationForbids(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.Database(t))
	seed := `insert into source (key, name, identifier, source_type) values ('s', 's', 's', 'local_file');
insert into card (identifier, source_id, name, file) values ('a', 1, 'A', 'a.png');
insert into pilot_run_ledger (run_id, data_run_id, command) values ('r', 'r', 'x');`
	_, err := conn.Exec(t.Context(), seed)
	assert.NilError(t, err)
	for name, sql := range map[string]string{
		"vote for nothing":           `insert into card_printing_tag (card_id, anonymous_id, source) values (1, 'x', 'ocr')`,
		"completed without end":      `update pilot_run_ledger set status = 'completed', counters = '{"elapsed_s": 1}'`,
		"completed without counters": `update pilot_run_ledger set status = 'completed', finished_at = now()`,
		"failed without reason":      `update pilot_run_ledger set status = 'failed', finished_at = now()`,
		"ledger id twice":            `insert into pilot_run_ledger (run_id, data_run_id, command) values ('r', 'r', 'x')`,
		"transfer without donor":     `insert into image_evidence (card_id, content_hash, extractor_versions, transferred) values (1, 1, '{}', true)`,
		"trip closed without note":   `insert into envelope_trip (trip_id, bar, acknowledged_at) values ('t', 'rss', now())`,
	} {
		_, err := conn.Exec(t.Context(), sql)
		assert.Assert(t, err != nil, name)
	}
}

// TestEveryStatementIsLabelledOnceAndParses reads the package's own source, so
// that a statement cannot be forgotten here.
func TestEveryStatementIsLabelledOnceAndParses(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.Database(t))
	_, err := conn.Exec(t.Context(), schema.ReferenceStage) // others read the table that it makes
	assert.NilError(t, err)
	seen := map[string]string{}
	for name, sql := range statements(t) {
		label := schema.Label(sql)
		assert.Assert(t, label != "", "%s has no label", name)
		assert.Equal(t, seen[label], "", "label %s is used twice", label)
		seen[label] = name
		_, err := conn.Prepare(t.Context(), label, sql)
		assert.NilError(t, err, name)
	}
	assert.Assert(t, len(seen) > 25)
}

// statements evaluates the exported string constants of the package.
func statements(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	files, err := filepath.Glob("*.go")
	assert.NilError(t, err)
	for range 2 { // twice: a constant may be built from one that is read later
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			assert.NilError(t, err)
			ast.Inspect(parsed, func(node ast.Node) bool { return collectConstant(values, node) })
		}
	}
	for name := range values {
		if !ast.IsExported(name) {
			delete(values, name)
		}
	}
	return values
}

func collectConstant(values map[string]string, node ast.Node) bool {
	spec, ok := node.(*ast.ValueSpec)
	if !ok || len(spec.Values) != 1 {
		return true
	}
	if text, ok := evaluate(values, spec.Values[0]); ok {
		values[spec.Names[0].Name] = text
	}
	return false
}

func evaluate(values map[string]string, node ast.Expr) (string, bool) {
	switch node := node.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(node.Value)
		return text, err == nil && node.Kind == token.STRING
	case *ast.Ident:
		text, ok := values[node.Name]
		return text, ok
	case *ast.BinaryExpr:
		left, okLeft := evaluate(values, node.X)
		right, okRight := evaluate(values, node.Y)
		return left + right, okLeft && okRight
	}
	return "", false
}
