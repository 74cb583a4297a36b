package html_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	page "deadwire/harness/report/html"

	"deadwire/harness/report"
)

// rendered returns the page of the one recorded run that all formats show, as a
// reporter gets it: passwords masked.
func rendered(t *testing.T, change func(*report.Run)) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "run.json"))
	assert.NilError(t, err)
	var run report.Run
	assert.NilError(t, json.Unmarshal(data, &run))
	if change != nil {
		change(&run)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	assert.NilError(t, report.NewMulti(page.New(path)).Done(run))
	text, err := os.ReadFile(path)
	assert.NilError(t, err)
	return string(text)
}

func TestThePageSaysWhatWentWrongFirst(t *testing.T) {
	t.Parallel()
	text := rendered(t, nil)
	failed, undetermined, passed := strings.Index(text, "ack-lost-on-commit/fixed"), strings.Index(text, "silent-drop/broken"), strings.Index(text, "inherited-terminate/broken")
	assert.Assert(t, failed > 0 && failed < undetermined && undetermined < passed)
	for _, want := range []string{"0x5eed1a2b", "dispatched-at-most-once", "#5160", "inheritor 8150", "fork.inherited-terminate", "child of 8140", "certainty"} {
		assert.Check(t, is.Contains(text, want))
	}
	assert.Equal(t, strings.Count(text, "<details open>"), 2)
}

// What a subject printed must not become markup, and nothing is loaded from anywhere.
func TestThePageStandsAlone(t *testing.T) {
	t.Parallel()
	const attack = `<script src="https://example.org/x.js"></script>"><img onerror=alert(1)>`
	text := rendered(t, func(run *report.Run) {
		for n := range run.Cases {
			run.Cases[n].Error, run.Cases[n].Reason, run.Cases[n].Again = attack, attack, attack
			for i := range run.Cases[n].Endings {
				run.Cases[n].Endings[i].Role, run.Cases[n].Endings[i].Message = attack, attack
			}
		}
	})
	root, err := html.Parse(strings.NewReader(text))
	assert.NilError(t, err)
	for node := range root.Descendants() {
		assert.Check(t, node.Data != "script" && node.Data != "img" && node.Data != "link", node.Data)
		for _, attribute := range node.Attr {
			assert.Check(t, !strings.HasPrefix(attribute.Key, "on") && attribute.Key != "src" && attribute.Key != "href", attribute.Key)
		}
	}
	assert.Check(t, !regexp.MustCompile(`url\(|@import`).MatchString(text))
}

func TestNoSecretGetsOnThePage(t *testing.T) {
	t.Parallel()
	text := rendered(t, func(run *report.Run) {
		run.Cases[0].Error = "cannot reach postgres://app:hunter2@127.0.0.1/app"
	})
	assert.Check(t, !strings.Contains(text, "hunter2"))
	assert.Check(t, is.Contains(text, "127.0.0.1/app"))
}

func TestAnEmptyRunHasAPage(t *testing.T) {
	t.Parallel()
	text, err := page.Render(report.Run{})
	assert.NilError(t, err)
	assert.Check(t, is.Contains(string(text), "</html>"))
}
