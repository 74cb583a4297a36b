package pipeline

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// incidents is how many the history has.
const incidents = 76

func TestEveryIncidentNamesATestOrScenarioThatExists(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("doc.go")
	assert.NilError(t, err)
	text := strings.ReplaceAll(string(raw), "\n//     ", " ")
	entries := regexp.MustCompile(`(?m)^//   - (\d+) (cannot happen: \S.*|guarded: \S.*)$`).FindAllStringSubmatch(text, -1)
	assert.Equal(t, len(entries), incidents)
	tests := testNames(t)
	for i, entry := range entries {
		assert.Equal(t, entry[1], strconv.Itoa(i+1))
		named := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(entry[2], -1)
		scenarios := regexp.MustCompile(`\bscenario ([a-z-]+)`).FindAllStringSubmatch(entry[2], -1)
		assert.Assert(t, !strings.HasPrefix(entry[2], "guarded") || len(named)+len(scenarios) > 0, "incident %s names no guard", entry[1])
		for _, name := range named {
			assert.Assert(t, tests[name], "incident %s: no test is called %s", entry[1], name)
		}
		for _, scenario := range scenarios {
			_, err := os.Stat(filepath.Join("..", "scenarios", "regression", scenario[1]+".yaml"))
			assert.NilError(t, err, "incident %s", entry[1])
		}
	}
}

// testNames are those of all tests of the pipeline.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(source), -1) {
			names[found[1]] = true
		}
		return err
	})
	assert.NilError(t, err)
	return names
}
