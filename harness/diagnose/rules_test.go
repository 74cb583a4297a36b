package diagnose_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/diagnose"
)

func TestRulesAreSortedAndUnique(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, r := range diagnose.Rules() {
		ids = append(ids, r.ID)
	}
	assert.Assert(t, slices.IsSorted(ids), "%v", ids)
	assert.Equal(t, len(slices.Compact(slices.Clone(ids))), len(ids))
}

func TestEveryRuleSaysWhatHowAndWhatToDo(t *testing.T) {
	t.Parallel()
	for _, r := range diagnose.Rules() {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			for _, text := range []string{r.Sentence, r.Tells, r.Mend} {
				assert.Assert(t, strings.HasSuffix(text, "."), "%q is no sentence", text)
			}
			_, again := diagnose.Lookup(r.ID)
			assert.Assert(t, again)
		})
	}
	_, ok := diagnose.Lookup("fork.inherited")
	assert.Assert(t, !ok, "half an id is no id")
}

// The ids and families of the plan of record, section 5. A rule of the harness
// must be one of these; ids are a contract with scripts.
func planned() map[string]string {
	return map[string]string{
		"fork.shared-query": "F01", "fork.shared-tls": "F02", "fork.inherited-terminate": "F03", "fork.opener-left": "F04",
		"fork.pool-threads-lost": "F05", "fork.held-by-descendant": "F06", "capacity.exhausted": "F07", "backend.admin-terminate": "F08",
		"pool.dead-reused": "F09", "backend.session-timeout": "F10", "backend.crash-restart": "F11", "network.silent-drop": "F12",
		"network.blackhole": "F13", "network.closed": "F14", "network.reset": "F14", "backend.client-gone": "F15",
		"pooler.session-state": "F16", "session.statement-cache": "F17", "session.late-cancel": "F18", "pooler.cut": "F19",
		"failover.wrong-node": "F20", "txn.ambiguous-commit": "F21", "txn.unsafe-replay": "F22", "txn.reconnect-inside": "F23",
		"txn.dirty-return": "F24", "belief.session-lock": "F25", "belief.listen-lost": "F26", "jobs.orphaned": "F27",
		"jobs.poison": "F28", "jobs.lease-expired": "F29", "server.refused": "", "process.threads-share": "N1", "process.broken-pool": "N2",
		"close.ordinary": "", "process.died": "", "process.handed-over": "", "unknown": "",
	}
}

func TestRuleIDsAreThoseOfThePlan(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z]+\.[a-z-]+$`)
	for _, r := range diagnose.Rules() {
		family, ok := planned()[r.ID]
		assert.Assert(t, ok, "%s is not in the plan", r.ID)
		assert.Equal(t, r.Family, family, r.ID)
		assert.Assert(t, r.ID == diagnose.RuleUnknown || form.MatchString(r.ID))
	}
}

func TestOnlyOrdinaryRulesAreOrdinary(t *testing.T) {
	t.Parallel()
	var ordinary []string
	for _, r := range diagnose.Rules() {
		if r.Ordinary {
			ordinary = append(ordinary, r.ID)
		}
	}
	assert.DeepEqual(t, ordinary, []string{"close.ordinary", "process.died", "process.handed-over"})
}

func TestRulesReturnsACopy(t *testing.T) {
	t.Parallel()
	diagnose.Rules()[0].ID = "changed"
	assert.Assert(t, diagnose.Rules()[0].ID != "changed")
}

func BenchmarkExplain(b *testing.B) {
	events := recording(b, "terminate-at-exit.fixed")
	b.ReportAllocs()
	for b.Loop() {
		diagnose.Explain(events)
	}
}
