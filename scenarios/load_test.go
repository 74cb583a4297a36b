package scenarios_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/faults/catalog"
	"deadwire/faults/network"
	"deadwire/harness/event"
	"deadwire/scenarios"
)

func TestBuiltinScenarios(t *testing.T) {
	t.Parallel()
	all, err := scenarios.Builtin()
	assert.NilError(t, err)
	assert.Assert(t, len(all) >= 13)
	assert.Assert(t, slices.IsSortedFunc(all, func(a, b scenarios.Scenario) int { return strings.Compare(a.Name, b.Name) }))
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, s.File, "scenarios/regression/"+s.Name+".yaml")
			assert.Equal(t, s.Line, 1)
			assert.Assert(t, len(strings.Fields(s.Story)) > 20, "the story tells symptom, cause and fix")
			assert.Assert(t, len(s.Cases) > 0)
			text, err := os.ReadFile(filepath.Join("..", s.File))
			assert.NilError(t, err)
			lines := strings.Split(string(text), "\n")
			last := 0
			for _, c := range s.Cases {
				assert.Assert(t, c.Line > last, "cases come in the order of the file")
				assert.Equal(t, strings.TrimSpace(lines[c.Line-1]), c.Name+":")
				last = c.Line
			}
		})
	}
}

// A pair shows the failure and the mend: what is called broken fails or breaks a
// promise, and has a fixed twin.
func TestBrokenCasesHaveFixedTwins(t *testing.T) {
	t.Parallel()
	all, err := scenarios.Builtin()
	assert.NilError(t, err)
	for _, s := range all {
		names := map[string]bool{}
		for _, c := range s.Cases {
			names[c.Name] = true
			if strings.HasPrefix(c.Name, "fixed") {
				assert.Equal(t, len(c.Expect.Endings)*len(c.Faults)*len(c.Expect.Findings), 0, "%s/%s", s.Name, c.Name)
			}
		}
		assert.Assert(t, !names["broken"] || names["fixed"], s.Name)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Parse("f.yaml", []byte("name: x\nstory: s\ncases: {a: {expect: {outcome: completes}}}\n"))
	assert.NilError(t, err)
	assert.Equal(t, s.Subject, "conveyor")
	assert.Assert(t, !s.OwnServer())
	assert.Equal(t, s.Workload, scenarios.Workload{Cards: 24, Workers: 3, Batch: 12, Seed: "deadwire", DBTimeoutMS: 5000, ConnectTimeoutS: 30})
	s, err = scenarios.Parse("f.yaml", []byte("name: x\nstory: s\nserver: own\ncommand: [app]\nworkload: {cards: 3}\ncases: {a: {expect: {outcome: completes}}}\n"))
	assert.NilError(t, err)
	assert.Equal(t, s.Subject, "")
	assert.Assert(t, s.OwnServer())
	assert.Equal(t, s.Workload.Cards, 3)
	assert.Equal(t, s.Workload.Batch, 12)
}

func TestEverythingInAScenarioArrives(t *testing.T) {
	t.Parallel()
	s, err := scenarios.ReadFile("testdata/everything.yaml")
	assert.NilError(t, err)
	c := s.Cases[0]
	cut, ok := c.Faults[0].Fault.(network.Cut)
	assert.Assert(t, ok)
	assert.Equal(t, string(cut.Manner), "rst")
	assert.Equal(t, cut.At.Label, "persist")
	assert.Equal(t, c.Faults[0].When.Message.Session, "worker-*")
	assert.Equal(t, c.Faults[1].When.Event.Kind, event.SessionOpened)
	assert.DeepEqual(t, c.After, []scenarios.Step{{Locks: "held"}, {Heal: "network.down"}, {End: "workers"}})
	assert.DeepEqual(t, c.Expect, scenarios.Expect{
		Outcome: "fails", Error: "a|b",
		Endings: scenarios.Endings{{
			Rule: "network.reset", Session: "worker-*", Actor: "fault", Manner: event.RST, State: event.InQuery,
			SQLState: "57P01", Certainty: "exact", Count: "some",
		}},
		Findings:   []scenarios.FindingMatch{{Rule: "txn.ambiguous-commit", Session: "worker-*", Count: "any"}},
		Invariants: scenarios.Invariants{"ledger-truthful": "broken", "no-lock-left": "kept"},
		ServerLog:  "silent", Ledger: map[string]int{"failed": 1}, Converges: true,
	})
	assert.Equal(t, c.Resume.Expect.Outcome, "completes")
	assert.Assert(t, c.Resume.Expect.Endings == nil && c.Resume.Expect.Invariants == nil, "none and all are the defaults")
	assert.Equal(t, s.Limit, "1m")
	assert.Equal(t, s.Witness.Sends, "all")
}

func TestFaultStepSurvivesJSON(t *testing.T) {
	t.Parallel()
	all, err := scenarios.Builtin()
	assert.NilError(t, err)
	for _, s := range all {
		for _, c := range s.Cases {
			for _, step := range c.Faults {
				text, err := json.Marshal(step)
				assert.NilError(t, err)
				var back scenarios.FaultStep
				assert.NilError(t, json.Unmarshal(text, &back))
				assert.DeepEqual(t, back, step)
			}
		}
	}
}

func TestSchemaIsValidAndKnowsEveryFaultParameter(t *testing.T) {
	t.Parallel()
	text, err := scenarios.Schema()
	assert.NilError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	assert.NilError(t, err)
	compiler := jsonschema.NewCompiler()
	assert.NilError(t, compiler.AddResource("scenario.json", doc))
	_, err = compiler.Compile("scenario.json")
	assert.NilError(t, err)

	var schema struct {
		Defs struct {
			Fault struct {
				Properties map[string]struct {
					Properties map[string]struct {
						Description string `json:"description"`
					} `json:"properties"`
				} `json:"properties"`
			} `json:"fault"`
		} `json:"$defs"`
	}
	assert.NilError(t, json.Unmarshal(text, &schema))
	for _, f := range catalog.All() {
		described, ok := schema.Defs.Fault.Properties[f.Name()]
		assert.Assert(t, ok, "the schema has no fault %s", f.Name())
		for _, parameter := range catalog.Parameters(f) {
			p, ok := described.Properties[strings.Trim(parameter, "[]")]
			assert.Assert(t, ok && p.Description != "", "%s.%s is not described", f.Name(), parameter)
		}
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	t.Parallel()
	_, err := scenarios.ReadFile("testdata/none.yaml")
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "testdata/none.yaml")
}

const head = "name: x\nstory: s\n" // two lines, before the text of most tests

type mistake struct{ name, text, want string }

// Each error is one line: the file, the line, what is wrong, and the nearest
// known word where there is one.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, test := range slices.Concat(mistakesOfForm(), mistakesInFaults(), mistakesInExpectations()) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for range 3 { // the schema's problems come in the order of a map
				_, err := scenarios.Parse("f.yaml", []byte(test.text))
				assert.Error(t, err, test.want)
			}
		})
	}
}

func mistakesOfForm() []mistake {
	return []mistake{
		{"empty file", "", "f.yaml: the file is empty"},
		{"only a comment", "# nothing\n", "f.yaml: the file is empty"},
		{"broken YAML", "name: [\n", "f.yaml:1: sequence end token ']' not found"},
		{"broken indentation", "name: x\n  story: y\n", "f.yaml:1: mapping value is not allowed in this context"},
		{"a tab", head + "\tx: y\n", "f.yaml:3: found character '\t' that cannot start any token"},
		{"the same key twice", head + "cases:\n  a: {expect: {outcome: fails}}\n  a: {expect: {outcome: fails}}\n", `f.yaml:5: mapping key "a" already defined at [4:3]`},
		{"two documents", head + "cases: {a: {expect: {outcome: fails}}}\n---\nname: y\n", "f.yaml:1: a second document begins after it: one file holds one scenario"},
		{"a list", "- a\n", "f.yaml:1: the scenario: got array, want object"},
		{"a text", "hello\n", "f.yaml:1: the scenario: got string, want object"},
		{"no cases", head, "f.yaml:1: the scenario: missing property 'cases'"},
		{"cases without a case", head + "cases: {}\n", "f.yaml:3: cases: it has 0 entries, at least 1 are needed"},
		{"unknown top-level field", head + "workloda: {}\ncases: {a: {expect: {outcome: fails}}}\n", `f.yaml:3: unknown field "workloda" in the scenario (did you mean "workload"?)`},
		{"two unknown fields: the first one", head + "zzzzz: 1\naa: 2\ncases: {a: {expect: {outcome: fails}}}\n", `f.yaml:3: unknown field "zzzzz" in the scenario (known: cases, command, limit, name, server, story, subject, tls, witness, workload)`},
		{"unknown workload field", head + "workload:\n  cards: 3\n  wokers: 2\ncases: {a: {expect: {outcome: fails}}}\n", `f.yaml:5: unknown field "wokers" in workload (did you mean "workers"?)`},
		{"unknown field of a case's workload", head + "cases:\n  a:\n    workload: {card: 3}\n    expect: {outcome: fails}\n", `f.yaml:5: unknown field "card" in cases.a.workload (did you mean "cards"?)`},
		{"unknown case field", head + "cases:\n  a:\n    expect: {outcome: fails}\n    fault: []\n", `f.yaml:6: unknown field "fault" in cases.a (did you mean "faults"?)`},
		{"missing expect", head + "cases:\n  ok: {expect: {outcome: fails}}\n  a:\n    faults: []\n", "f.yaml:5: cases.a: missing property 'expect'"},
		{"expect is no mapping", head + "cases:\n  a:\n    expect: fails\n", "f.yaml:5: cases.a.expect: got string, want object"},
		{"wrong enum", head + "cases:\n  a:\n    expect: {outcome: failz}\n", `f.yaml:5: cases.a.expect.outcome: unknown value "failz" (did you mean "fails"?)`},
		{"wrong type", head + "workload: {cards: many}\ncases: {a: {expect: {outcome: fails}}}\n", "f.yaml:3: workload.cards: got string, want integer"},
		{"out of range", head + "workload: {cards: 0}\ncases: {a: {expect: {outcome: fails}}}\n", "f.yaml:3: workload.cards: minimum: got 0, want 1"},
		{"bad name", "name: X Y\nstory: s\ncases: {a: {expect: {outcome: fails}}}\n", "f.yaml:1: name: 'X Y' does not match pattern '^[a-z0-9][a-z0-9-]*$'"},
		{"bad limit", head + "limit: 1.2.3s\ncases: {a: {expect: {outcome: fails}}}\n", `f.yaml:3: limit: "1.2.3s" is no duration, such as 30s`},
		{"no limit at all", head + "limit: 0s\ncases: {a: {expect: {outcome: fails}}}\n", `f.yaml:3: limit: "0s" is no duration, such as 30s`},
	}
}

func mistakesInFaults() []mistake {
	return []mistake{
		{"unknown fault", inCase("faults:", "  - network.cutt: {manner: fin}"), `f.yaml:7: unknown field "network.cutt" in cases.a.faults.0 (did you mean "network.cut"?)`},
		{"unknown fault parameter", inCase("faults:", "  - network.down: {}", "  - network.slicer:", "      byte: 3"), `f.yaml:9: unknown field "byte" in cases.a.faults.1.network.slicer (did you mean "bytes"?)`},
		{"wrong enum of a fault", inCase("faults:", "  - fork: {do: terminat}"), `f.yaml:7: cases.a.faults.0.fork.do: unknown value "terminat" (did you mean "terminate"?)`},
		{"wrong type of a fault's parameter", inCase("faults:", "  - process.panic: {nth: two}"), "f.yaml:7: cases.a.faults.0.process.panic.nth: got string, want integer"},
		{"a fault lacks a parameter", inCase("faults:", "  - network.cut: {manner: fin}"), "f.yaml:7: cases.a.faults.0.network.cut: missing property 'at'"},
		{"a fault without parameters", inCase("faults:", "  - network.down:"), "f.yaml:7: cases.a.faults.0.network.down: got null, want object"},
		{"a bare fault", inCase("faults:", "  - network.down"), "f.yaml:7: cases.a.faults.0: got string, want object"},
		{"two faults in one entry", inCase("faults:", "  - network.down: {}", "    network.slicer: {bytes: 2}"), "f.yaml:8: cases.a.faults.0: two faults in one entry: network.down and network.slicer; begin a new entry with a dash"},
		{"when without a fault", inCase("faults:", "  - network.down: {}", "  - when: {output: x}"), "f.yaml:8: cases.a.faults.1: it says when, but no fault"},
		{"unknown trigger", inCase("faults:", "  - network.down: {}", "    when: {mesage: {}}"), `f.yaml:8: unknown field "mesage" in cases.a.faults.0.when (did you mean "message"?)`},
		{"two conditions in one trigger", inCase("faults:", "  - network.down: {}", "    when:", "      output: x", "      after_ms: 3"), "f.yaml:10: cases.a.faults.0.when: it has both output and after_ms; one trigger has one condition"},
		{"bad pattern of a trigger", inCase("faults:", "  - network.down: {}", "    when: {output: '('}"), "f.yaml:8: cases.a.faults.0.when.output: error parsing regexp: missing closing ): `(`"},
		{"unknown step", inCase("after:", "  - {lock: free}"), `f.yaml:7: unknown field "lock" in cases.a.after.0 (did you mean "locks"?)`},
		{"two things in one step", inCase("after:", "  - {locks: free, end: workers}"), "f.yaml:7: cases.a.after.0: it has 2 entries, at most 1 are allowed"},
		{"healing what was not injected", inCase("faults:", "  - network.down: {}", "after:", "  - {heal: network.dwn}"), `f.yaml:9: no fault "network.dwn" in this case (did you mean "network.down"?)`},
	}
}

func mistakesInExpectations() []mistake {
	return []mistake{
		{"unknown rule", inExpect("endings:", "  - {rule: network.closed}", "  - rule: fork.inherited-terminat"), `f.yaml:8: unknown rule "fork.inherited-terminat" (did you mean "fork.inherited-terminate"?)`},
		{"unknown rule of a finding", inExpect("findings:", "  - rule: fork.shared-qery"), `f.yaml:7: unknown rule "fork.shared-qery" (did you mean "fork.shared-query"?)`},
		{"unknown rule in resume", inCase("resume:", "  expect:", "    outcome: completes", "    findings:", "      - rule: fork.shared-qery"), `f.yaml:10: unknown rule "fork.shared-qery" (did you mean "fork.shared-query"?)`},
		{"unknown field of an ending", inExpect("endings:", "  - {rul: network.closed}"), `f.yaml:7: unknown field "rul" in cases.a.expect.endings.0 (did you mean "rule"?)`},
		{"unknown actor", inExpect("endings:", "  - rule: network.closed", "    actor: inheriter"), `f.yaml:8: cases.a.expect.endings.0.actor: unknown value "inheriter" (did you mean "inheritor"?)`},
		{"endings are no list", inExpect("endings: some"), `f.yaml:6: cases.a.expect.endings: it must be "none" or an array`},
		{"endings are left open", inExpect("endings:"), `f.yaml:6: cases.a.expect.endings: it must be "none" or an array`},
		{"unknown invariant", inExpect("invariants:", "  no-lock-left: kept", "  ledger-truthfull: broken"), `f.yaml:8: unknown invariant "ledger-truthfull" (did you mean "ledger-truthful"?)`},
		{"unknown word for an invariant", inExpect("invariants: {ledger-truthful: brokn}"), `f.yaml:6: cases.a.expect.invariants.ledger-truthful: unknown value "brokn" (did you mean "broken"?)`},
		{"invariants are no mapping", inExpect("invariants: none"), `f.yaml:6: cases.a.expect.invariants: it must be "all" or an object`},
		{"bad pattern", inExpect("error: 'a(b'"), "f.yaml:6: cases.a.expect.error: error parsing regexp: missing closing ): `a(b`"},
		{"unknown status of the ledger", inExpect("ledger: {runing: 1}"), `f.yaml:6: unknown field "runing" in cases.a.expect.ledger (did you mean "running"?)`},
		{"unknown field in resume", inCase("resume:", "  expct: {outcome: fails}"), `f.yaml:7: unknown field "expct" in cases.a.resume (did you mean "expect"?)`},
	}
}

// inCase returns a scenario whose case a has these lines from line 6 on.
func inCase(lines ...string) string {
	return head + "cases:\n  a:\n    expect: {outcome: fails}\n    " + strings.Join(lines, "\n    ") + "\n"
}

// inExpect returns a scenario whose expectation has these lines from line 6 on.
func inExpect(lines ...string) string {
	return head + "cases:\n  a:\n    expect:\n      " + strings.Join(append(lines, "outcome: fails"), "\n      ") + "\n"
}

// Whatever a file holds, the answer is a scenario or one line that begins with
// the file's name.
func TestDamagedScenariosAreRefusedInOneLine(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile("testdata/everything.yaml")
	assert.NilError(t, err)
	located := regexp.MustCompile(`^f\.yaml(:\d+)?: .+$`)
	rapid.Check(t, func(t *rapid.T) {
		text := slices.Clone(whole)
		for range rapid.IntRange(1, 3).Draw(t, "damages") {
			i := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			n := rapid.IntRange(0, min(20, len(text)-i)).Draw(t, "removed")
			put := rapid.SampledFrom([]string{"", " ", "\n", "x", ":", "- ", "{", "[", "'", "&a ", "*a", "? ", "!!", "\x00", "null", "---\n"}).Draw(t, "put")
			text = slices.Concat(text[:i], []byte(put), text[i+n:])
			if len(text) == 0 {
				break
			}
		}
		if _, err := scenarios.Parse("f.yaml", text); err != nil {
			assert.Assert(t, located.MatchString(err.Error()), "%q", err.Error())
		}
	})
}
