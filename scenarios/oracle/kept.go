package oracle

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"deadwire/harness/event"
)

// votesKept compares with what an earlier run had left: a machine's vote may be
// replaced by another, but neither vanish nor be written again just as it was.
func votesKept(in Input) []string {
	if in.Earlier == nil {
		return nil
	}
	held := map[string][]Vote{}
	for _, v := range in.Snapshot.Votes {
		key := v.Card + " by " + v.Agent
		held[key] = append(held[key], v)
	}
	var out []string
	for _, was := range in.Earlier.Votes {
		if was.Source != "ocr" && was.Source != "deduction" {
			continue
		}
		key := was.Card + " by " + was.Agent
		same := slices.IndexFunc(held[key], func(v Vote) bool { return v.Printing == was.Printing && v.NoMatch == was.NoMatch })
		switch {
		case len(held[key]) == 0:
			out = append(out, "the vote on "+key+" is gone")
		case same >= 0 && held[key][same].RunID != was.RunID:
			out = append(out, fmt.Sprintf("the vote on %s was written again by %s, just as it was", key, held[key][same].RunID))
		}
	}
	return out
}

// slotApart compares the batches that this run began with the sessions that it
// opened for slots: each batch takes its slot's lock on a new one.
func slotApart(in Input) []string {
	named, slots := 0, 0
	for _, e := range in.Events {
		if e.Kind != event.SessionNamed || e.Session.Place != event.Front {
			continue
		}
		named++
		if path.Base(e.Named.ApplicationName) == "slot" {
			slots++
		}
	}
	begun := 0
	for _, e := range in.Snapshot.Ledger {
		if !in.knownRow(e.RunID) && !strings.HasSuffix(e.RunID, "-pipeline") {
			begun++
		}
	}
	if named == 0 || slots >= begun { // no session can be told from another where all is encrypted
		return nil
	}
	return []string{fmt.Sprintf("%d batches were begun with %d sessions for slots", begun, slots)}
}

func (in Input) knownRow(runID string) bool {
	return in.Earlier != nil && slices.ContainsFunc(in.Earlier.Ledger, func(e Entry) bool { return e.RunID == runID })
}
