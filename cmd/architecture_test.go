// Package cmd holds the commands, and here the rules of the whole module: who
// may import whom, which package may use which library, and the style that can
// be measured. It owns no behaviour. The tables in this file are authoritative;
// a package or a library without a rule fails.
package cmd

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// imports says which packages of this module a package may import, besides the
// standard library. Keys name one package; values ending in /... name a package
// and all below it.
var imports = map[string][]string{
	"pipeline":                   {"pipeline/..."},
	"pipeline/command":           {"pipeline/..."},
	"pipeline/frame":             {},
	"pipeline/envelope":          {},
	"pipeline/schema":            {},
	"pipeline/evidence":          {},
	"pipeline/schema/schematest": {"pipeline/schema"},
	"pipeline/session":           {"pipeline/schema"},
	"pipeline/ledger":            {"pipeline/schema", "pipeline/session", "pipeline/envelope"},
	"pipeline/slot":              {"pipeline/schema", "pipeline/session"},
	"pipeline/deduce":            {"pipeline/evidence", "pipeline/schema", "pipeline/session"},
	"pipeline/consensus":         {"pipeline/deduce", "pipeline/schema", "pipeline/session"},
	"pipeline/decide":            {"pipeline/consensus", "pipeline/deduce", "pipeline/schema", "pipeline/session"},
	"pipeline/cardgen":           {"pipeline/catalogue", "pipeline/evidence"},
	"pipeline/ocr":               {"pipeline/evidence"},
	"pipeline/worker":            {"pipeline/frame", "pipeline/evidence"},
	"pipeline/reference":         {"pipeline/deduce", "pipeline/schema", "pipeline/session"},
	"pipeline/catalogue":         {"pipeline/evidence", "pipeline/fetch", "pipeline/schema", "pipeline/session"},
	"pipeline/limits":            {"pipeline/schema", "pipeline/session"},
	"pipeline/fetch":             {"pipeline/..."},
	"pipeline/dispatch":          {"pipeline/..."},
	"pipeline/sweep":             {"pipeline/..."},
	"pipeline/drive":             {"pipeline/..."},
	"pipeline/jobs":              {"pipeline/..."},
	"pipeline/metrics":           {"pipeline/dispatch"},

	"harness/event":           {},
	"harness/verdict":         {},
	"harness/wait":            {},
	"harness/janitor":         {"harness/wait"},
	"harness/diagnose":        {"harness/event"},
	"harness/rundir":          {"harness/event", "harness/verdict"},
	"harness/pg":              {"harness/event", "harness/wait"},
	"harness/pg/cluster":      {"harness/event", "harness/wait", "harness/pg"},
	"harness/pg/local":        {"harness/event", "harness/wait", "harness/pg", "harness/pg/cluster"},
	"harness/pg/docker":       {"harness/event", "harness/wait", "harness/pg", "harness/pg/cluster"},
	"harness/pg/embedded":     {"harness/event", "harness/wait", "harness/pg", "harness/pg/cluster", "harness/pg/local"},
	"harness/pg/external":     {"harness/event", "harness/wait", "harness/pg"},
	"harness/pg/repository":   {"harness/pg"},
	"harness/pg/source":       {"harness/pg", "harness/pg/local", "harness/pg/docker", "harness/pg/embedded", "harness/pg/external"},
	"harness/pg/pgtest":       {"harness/event", "harness/wait", "harness/pg", "harness/pg/cluster"},
	"harness/proxy":           {"harness/event", "harness/wait"},
	"harness/tap":             {"harness/event", "harness/wait"},
	"harness/witness":         {"harness/event", "harness/wait"},
	"harness/subject":         {"harness/event", "harness/wait", "harness/witness"},
	"harness/report":          {"harness/event", "harness/verdict", "harness/diagnose", "harness/rundir"},
	"harness/report/terminal": {"harness/event", "harness/verdict", "harness/diagnose", "harness/rundir", "harness/report"},
	"harness/report/jsonl":    {"harness/event", "harness/verdict", "harness/diagnose", "harness/rundir", "harness/report"},
	"harness/report/junit":    {"harness/event", "harness/verdict", "harness/diagnose", "harness/rundir", "harness/report"},
	"harness/report/html":     {"harness/event", "harness/verdict", "harness/diagnose", "harness/rundir", "harness/report"},
	"harness/report/github":   {"harness/event", "harness/verdict", "harness/diagnose", "harness/rundir", "harness/report"},
	"harness": {
		"harness/event", "harness/verdict", "harness/wait", "harness/diagnose", "harness/rundir", "harness/janitor",
		"harness/pg/...", "harness/proxy", "harness/tap", "harness/witness", "harness/subject",
	},
	"harness/harnesstest": {"harness/..."},

	"faults": {
		"harness/event", "harness/wait", "harness/diagnose",
		"harness/pg", "harness/proxy", "harness/tap", "harness/witness", "harness/subject",
	},
	"faults/network":    {"faults", "harness/event", "harness/wait", "harness/proxy", "harness/tap"},
	"faults/process":    {"faults", "harness/event", "harness/wait", "harness/subject", "harness/witness"},
	"faults/fork":       {"faults", "harness/event", "harness/wait", "harness/subject", "harness/witness"},
	"faults/backend":    {"faults", "harness/event", "harness/wait", "harness/pg", "harness/tap"},
	"faults/source":     {"faults", "harness/event", "harness/wait"},
	"faults/catalog":    {"faults", "faults/network", "faults/process", "faults/fork", "faults/backend", "faults/source"},
	"faults/schedule":   {"faults", "faults/catalog", "faults/network", "faults/process", "faults/fork", "faults/backend", "faults/source", "harness/event"},
	"faults/faultstest": {"faults/...", "harness/..."},

	"scenarios":            {"scenarios/oracle", "scenarios/workload", "faults/...", "harness/..."},
	"scenarios/regression": {"scenarios", "faults/..."},
	"scenarios/workload":   {"harness/event", "harness/verdict", "harness/diagnose", "harness/pg"},
	"scenarios/oracle":     {"harness/event", "harness/verdict", "harness/diagnose", "harness/pg"},
	"scenarios/soak":       {"scenarios/...", "faults/...", "harness/..."},
	"scenarios/planted":    {}, // only tests and developers build what it plants

	"cmd":          {},
	"cmd/deadwire": {"cmd/deadwire/...", "scenarios/...", "faults/...", "harness/...", "pipeline/..."},
	"cmd/conveyor": {"pipeline/..."},
	"cmd/dev":      {"harness/...", "pipeline/...", "scenarios/planted"},
}

// libraries says where a library may be used outside of tests: one heavy
// dependency per leaf. Keys are import paths, and cover what is below them; the
// longest match counts.
var libraries = map[string][]string{
	"github.com/Shopify/toxiproxy/v2":              {"harness/proxy"},
	"github.com/adrg/xdg":                          {"harness/janitor", "harness/pg/...", "harness/rundir"},
	"github.com/agext/levenshtein":                 {"pipeline/deduce", "faults/catalog", "scenarios", "cmd/deadwire"},
	"github.com/cenkalti/backoff/v5":               {"pipeline/...", "harness/pg/..."},
	"github.com/charmbracelet":                     {"harness/report/terminal"},
	"github.com/containerd/errdefs":                {"harness/pg/docker"}, // what moby's client says, as data
	"github.com/corona10/goimagehash":              {"pipeline/evidence"},
	"github.com/elastic/go-seccomp-bpf":            {"harness/witness"},
	"github.com/fergusstrange/embedded-postgres":   {"harness/pg/embedded"},
	"github.com/goccy/go-yaml":                     {"scenarios/..."},
	"github.com/gofrs/flock":                       {"harness/pg/...", "harness/rundir", "harness/janitor"},
	"github.com/jackc/pgx/v5":                      {"pipeline/...", "harness", "harness/pg/...", "faults/backend", "faults", "faults/faultstest", "scenarios/...", "cmd/dev", "cmd/deadwire"},
	"github.com/jackc/pgx/v5/pgproto3":             {"harness/tap"},
	"github.com/jackc/tern/v2":                     {"pipeline/schema"},
	"github.com/jstemmer/go-junit-report/v2/junit": {"harness/report/junit"},
	"github.com/moby/moby":                         {"harness/pg/docker"},
	"github.com/muesli/termenv":                    {"harness/report/terminal"},
	"github.com/peterldowns/pgtestdb":              {"cmd/dev"}, // a competitor
	"github.com/prometheus/client_golang":          {"scenarios/soak", "pipeline/metrics"},
	"github.com/prometheus/procfs":                 {"pipeline/envelope", "harness/witness", "harness/subject", "faults/process", "faults/faultstest", "scenarios/oracle", "scenarios/soak"},
	"github.com/riverqueue/river":                  {"pipeline/jobs"},
	"github.com/rs/zerolog":                        {"harness/proxy"}, // Toxiproxy's constructor takes its logger
	"github.com/rivo/uniseg":                       {"harness/report/terminal"},
	"github.com/santhosh-tekuri/jsonschema/v6":     {"scenarios/..."},
	"github.com/spf13/cobra":                       {"pipeline/command", "cmd/..."},
	"github.com/spf13/pflag":                       {"pipeline/command", "cmd/..."},
	"github.com/testcontainers/testcontainers-go":  {"harness/pg/docker"},
	"github.com/vishvananda/netlink":               {"harness/witness"},
	"golang.org/x/image":                           {"pipeline/cardgen", "pipeline/evidence", "pipeline/ocr"},
	"golang.org/x/net":                             {"harness/witness"},
	"golang.org/x/sync":                            {"..."},
	"golang.org/x/sys":                             {"..."},
	"golang.org/x/term":                            {"harness/report/terminal", "pipeline/command", "cmd/..."},
	"golang.org/x/text":                            {"pipeline/...", "scenarios"},
	"golang.org/x/time":                            {"pipeline/...", "harness/tap"},
}

// testLibraries may be used by every test, and by packages whose name ends in
// test, besides what the package itself may use.
var testLibraries = []string{
	"gotest.tools/v3", "go.uber.org/goleak", "pgregory.net/rapid", "github.com/rogpeppe/go-internal",
	"github.com/jackc/pgx/v5", "github.com/prometheus/procfs", "golang.org/x/net", "github.com/santhosh-tekuri/jsonschema/v6",
	"github.com/chromedp/chromedp", "github.com/chromedp/cdproto",
}

// layers says which top folders the tests of a top folder may reach into.
var layers = map[string][]string{
	"pipeline":  {"pipeline"},
	"harness":   {"harness"},
	"faults":    {"faults", "harness"},
	"scenarios": {"scenarios", "faults", "harness"},
	"cmd":       {"cmd", "scenarios", "faults", "harness", "pipeline"},
}

func TestImportsFollowTheRules(t *testing.T) {
	t.Parallel()
	packages := list(t)
	assert.Check(t, len(packages) > 10, "go list found only %d packages", len(packages))
	for _, violation := range checkImports(packages) {
		t.Error(violation)
	}
}

func TestFilesFollowTheStyle(t *testing.T) {
	t.Parallel()
	packages := map[string]bool{} // by folder: does any file document it?
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() != ".." && strings.HasPrefix(entry.Name(), ".")) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		documented, violations := checkFile(name, source)
		for _, violation := range violations {
			t.Error(violation)
		}
		folder := filepath.ToSlash(filepath.Dir(name))
		packages[folder] = packages[folder] || documented
		return nil
	})
	assert.NilError(t, err)
	for folder, documented := range packages {
		assert.Check(t, documented, "%s: package without a comment", folder)
	}
}

func TestTheImportCheckerSeesViolations(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pkg  listed
		want string
	}{
		"a package without a rule":    {listed{ImportPath: "deadwire/harness/new"}, "harness/new: no rule"},
		"an arrow that runs upwards":  {listed{ImportPath: "deadwire/harness/tap", Imports: []string{"deadwire/faults"}}, "harness/tap: imports faults"},
		"a leaf that has a neighbour": {listed{ImportPath: "deadwire/pipeline/frame", Imports: []string{"deadwire/pipeline/schema"}}, "pipeline/frame: imports pipeline/schema"},
		"a library out of its leaf":   {listed{ImportPath: "deadwire/harness/tap", Imports: []string{"github.com/Shopify/toxiproxy/v2/toxics"}}, "harness/tap: uses github.com/Shopify/toxiproxy/v2/toxics"},
		"a part of an allowed library": {
			listed{ImportPath: "deadwire/pipeline/slot", Imports: []string{"github.com/jackc/pgx/v5/pgproto3"}}, "pipeline/slot: uses github.com/jackc/pgx/v5/pgproto3",
		},
		"an unknown library":           {listed{ImportPath: "deadwire/harness/tap", Imports: []string{"example.org/x"}}, "harness/tap: uses example.org/x, which has no rule"},
		"testing in a product":         {listed{ImportPath: "deadwire/harness/tap", Imports: []string{"testing"}}, "harness/tap: uses testing"},
		"an assertion in a product":    {listed{ImportPath: "deadwire/harness/tap", Imports: []string{"gotest.tools/v3/assert"}}, "harness/tap: uses gotest.tools/v3/assert"},
		"a test that reaches upwards":  {listed{ImportPath: "deadwire/pipeline/slot", XTestImports: []string{"deadwire/harness/wait"}}, "pipeline/slot: a test imports harness/wait"},
		"a test that borrows":          {listed{ImportPath: "deadwire/pipeline/slot", TestImports: []string{"github.com/charmbracelet/lipgloss"}}, "pipeline/slot: a test uses github.com/charmbracelet/lipgloss"},
		"nothing wrong":                {listed{ImportPath: "deadwire/harness/tap", Imports: []string{"time", "deadwire/harness/event"}, TestImports: []string{"testing", "gotest.tools/v3/assert", "deadwire/harness/pg/local"}}, ""},
		"a package made for tests":     {listed{ImportPath: "deadwire/faults/faultstest", Imports: []string{"testing", "gotest.tools/v3/assert"}}, ""},
		"the standard library's tests": {listed{ImportPath: "deadwire/harness/tap", Imports: []string{"testing/fstest"}}, "harness/tap: uses testing/fstest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assertOnly(t, checkImports([]listed{tc.pkg}), tc.want)
		})
	}
}

func TestTheStyleCheckerSeesViolations(t *testing.T) {
	t.Parallel()
	long := "package p\nfunc f() {\n" + strings.Repeat("\t_ = 0\n", 59) + "}\n"
	for name, tc := range map[string]struct{ file, source, want string }{
		"a long function":             {"harness/tap/a.go", long, "function f has 61 lines"},
		"a long method":               {"harness/tap/a.go", strings.Replace(long, "func f", "type t int\nfunc (t) m", 1), "function m has 61 lines"},
		"a function at the limit":     {"harness/tap/a.go", strings.Replace(long, "\t_ = 0\n", "", 1), ""},
		"a long file":                 {"harness/tap/a.go", "package p\n" + strings.Repeat("//\n", 400), "401 lines"},
		"a long test file":            {"harness/tap/a_test.go", "package p\n" + strings.Repeat("//\n", 400), "401 lines"},
		"sleep":                       {"harness/tap/a.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "a.go:3: time.Sleep"},
		"sleep in a test":             {"harness/tap/a_test.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "time.Sleep"},
		"sleep under another name":    {"harness/tap/a.go", "package p\nimport clock \"time\"\nvar f = clock.Sleep\n", "time.Sleep"},
		"sleep where waiting belongs": {"harness/wait/wait.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", ""},
		"a Sleep of another package":  {"harness/tap/a.go", "package p\nimport time \"fake/time\"\nfunc f() { time.Sleep(1) }\n", ""},
		"exit in a library":           {"harness/tap/a.go", "package p\nimport \"os\"\nfunc f() { os.Exit(1) }\n", "os.Exit"},
		"exit in a test's main":       {"harness/tap/a_test.go", "package p\nimport \"os\"\nfunc TestMain() { os.Exit(1) }\n", ""},
		"exit in a command":           {"cmd/deadwire/main.go", "package main\nimport \"os\"\nfunc main() { os.Exit(1) }\n", ""},
		"log.Fatal in a library":      {"harness/tap/a.go", "package p\nimport \"log\"\nfunc f() { log.Fatalf(``) }\n", "log.Fatalf"},
		"an error that fails":         {"harness/tap/a.go", "package p\nimport \"fmt\"\nvar e = fmt.Errorf(\"failed to x: %w\", nil)\n", `"failed to"`},
		"an error that shouts":        {"harness/tap/a.go", "package p\nimport \"errors\"\nvar e = errors.New(\"Open file\")\n", "starts with a capital"},
		"an error with a proper name": {"harness/tap/a.go", "package p\nimport \"errors\"\nvar e = errors.New(\"PostgreSQL is gone\")\n", ""},
		"a package of leftovers":      {"harness/util/a.go", "package util\n", "package named util"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documented, violations := checkFile(tc.file, []byte(tc.source))
			assert.Check(t, !documented)
			assertOnly(t, violations, tc.want)
		})
	}
	documented, _ := checkFile("a.go", []byte("// Package p is documented.\npackage p\n"))
	assert.Check(t, documented)
}

// assertOnly checks that want is part of the only violation; none if it is empty.
func assertOnly(t *testing.T, violations []string, want string) {
	t.Helper()
	if want == "" {
		assert.DeepEqual(t, violations, []string(nil))
		return
	}
	assert.Assert(t, is.Len(violations, 1))
	assert.Check(t, is.Contains(violations[0], want))
}
