package scenarios

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/scenarios/oracle"
)

// Recheck judges a stored case by today's rules and promises. It only reads: the
// journals, snapshots and facts of the run in dir, which is the run's folder. What
// the case was expected to do is what its scenario said at that time.
//
// The error is ErrNoFacts for a case that cannot be judged again, and otherwise
// says which file could not be read.
func Recheck(dir string, stored report.Case) (report.Case, error) {
	now := report.Case{
		Name: stored.Name, Iteration: stored.Iteration, DurationMS: stored.DurationMS, Proof: stored.Proof,
		Where: stored.Where, Dir: stored.Dir, Again: stored.Again,
	}
	if stored.Dir == "" || !filepath.IsLocal(stored.Dir) {
		return now, ErrNoFacts
	}
	first, judged, err := rejudge(dir, stored.Dir, nil)
	if err != nil {
		return now, err
	}
	first.fill(&now)
	resumed := filepath.Join(stored.Dir, resumeName)
	if _, err := os.Stat(filepath.Join(dir, resumed)); err == nil {
		after, again, err := rejudge(dir, resumed, &first.snapshot)
		if err != nil {
			return now, fmt.Errorf("resume: %w", err)
		}
		judged.resumed(again, after, &now)
	}
	judged.fill(&now)
	return now, nil
}

// rejudge judges one stored attempt.
func rejudge(dir, attempt string, earlier *oracle.Snapshot) (result, judgement, error) {
	if earlier == nil {
		var err error
		if earlier, err = readEarlier(filepath.Join(dir, attempt)); err != nil {
			return result{}, judgement{}, err
		}
	}
	f, r, err := readFacts(filepath.Join(dir, attempt), earlier)
	if err != nil {
		return r, judgement{}, err
	}
	judged := judge(f.Expect, r)
	if !f.Expect.Converges || len(judged.problems) > 0 || !filepath.IsLocal(f.Reference) {
		return r, judged, nil
	}
	var want oracle.Snapshot
	err = rundir.ReadJSON(filepath.Join(dir, f.Reference, snapshotName), &want)
	if errors.Is(err, fs.ErrNotExist) {
		judged.missing = append(judged.missing, "the fault-free run to compare with is not stored")
		return r, judged, nil
	}
	if err == nil {
		judged.compare(r.snapshot, want)
	}
	return r, judged, err
}
