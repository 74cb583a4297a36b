package junit_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"deadwire/harness/report"
	"deadwire/harness/report/junit"
)

func recorded(t *testing.T) report.Run {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "run.json"))
	assert.NilError(t, err)
	var run report.Run
	assert.NilError(t, json.Unmarshal(data, &run))
	return run
}

func TestXMLMatchesItsGolden(t *testing.T) {
	t.Parallel()
	data, err := junit.Render(recorded(t))
	assert.NilError(t, err)
	golden.Assert(t, string(data), "run.golden.xml")
	assert.Check(t, !strings.Contains(string(data), "h0rse"), "a password got out")
	assert.Check(t, !strings.ContainsAny(string(data), "\x1b\x07"), "a control character got out")
}

func TestVerdictsBecomeTheElementsThatCIServersRead(t *testing.T) {
	t.Parallel()
	data, err := junit.Render(recorded(t))
	assert.NilError(t, err)
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Type    string `xml:"type,attr"`
				} `xml:"failure"`
				Error *struct {
					Type string `xml:"type,attr"`
				} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	assert.NilError(t, xml.Unmarshal(data, &got))
	assert.DeepEqual(t, []int{got.Tests, got.Failures, got.Errors, got.Skipped}, []int{5, 1, 1, 1})
	assert.Equal(t, len(got.Suites), 4)
	assert.Equal(t, len(got.Suites[0].Cases), 2, "both cases of one scenario belong to one suite")
	failure := got.Suites[1].Cases[0].Failure
	assert.Equal(t, failure.Type, "dispatched-at-most-once")
	assert.Equal(t, failure.Message, "the case expected no endings and all invariants, and got one of each")
	assert.Equal(t, got.Suites[2].Cases[0].Error.Type, "undetermined")
}

func TestAnEmptyRunIsStillXML(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "junit.xml")
	assert.NilError(t, junit.New(path).Done(report.Run{}))
	data, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.NilError(t, xml.Unmarshal(data, new(struct {
		XMLName xml.Name `xml:"testsuites"`
	})))
}

func TestAFolderThatIsMissingIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "missing", "junit.xml")
	assert.ErrorContains(t, junit.New(path).Done(report.Run{}), path)
}
