package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"deadwire/faults"
	"deadwire/harness"
	"deadwire/harness/rundir"
	"deadwire/scenarios/oracle"
	"deadwire/scenarios/workload"
)

// earlierName holds, beside the snapshot of an attempt, what an earlier run had left
// in the database; the resumed attempt has the first one's snapshot instead.
const earlierName = "earlier.json"

// redoing is what a case's attempts have in common that work a second time over a
// catalogue. The zero value is for those that work for the first time.
type redoing struct {
	before  time.Time        // what was computed before is to be computed anew
	earlier *oracle.Snapshot // what there was then
}

// redo returns what the attempts of a case share, and keeps what the database holds
// now beside what they will leave.
func (r *Runner) redo(ctx context.Context, s Scenario, db *harness.Database, dir string) (redoing, error) {
	if !s.Workload.Redo {
		return redoing{}, nil
	}
	earlier, err := (&attempt{scenario: s, database: db}).snapshot(ctx)
	if err != nil {
		return redoing{}, err
	}
	if err := rundir.WriteJSON(filepath.Join(dir, earlierName), earlier); err != nil {
		return redoing{}, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	return redoing{before: time.Now(), earlier: &earlier}, nil
}

// words are conveyor's command and what belongs to it alone.
func (r redoing) words() []string {
	if r.before.IsZero() {
		return []string{"stream"}
	}
	return []string{"shakedown", "--before", r.before.Format(time.RFC3339Nano)}
}

// work lets the subject do all its work once, past the taps.
func (r *Runner) work(ctx context.Context, url, catalogue string) error {
	cmd := r.Subject.Command(ctx, "stream", "--source", catalogue)
	cmd.Env = append(cmd.Env, "DATABASE_URL="+url, faults.SeamEnv+"=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s stream, to be done again: %w: %s", filepath.Base(r.Subject.Path), err, out)
	}
	return nil
}

// referenceKey names the fault-free run of a workload.
func referenceKey(c workload.Catalogue, redo bool) string {
	if redo {
		return c.String() + "-redone"
	}
	return c.String()
}

// readEarlier returns what a stored first attempt had found in the database, nil
// when that was nothing.
func readEarlier(dir string) (*oracle.Snapshot, error) {
	var s oracle.Snapshot
	err := rundir.ReadJSON(filepath.Join(dir, earlierName), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &s, nil
}
