package tap

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/event"
)

// TestPgbench measures the tap beside a direct connection, interleaved, when
// DEADWIRE_PGBENCH is set to the number of rounds. It asserts only that both work:
// the numbers of a shared machine are for reading.
func TestPgbench(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("DEADWIRE_PGBENCH"))
	if rounds == 0 {
		t.Skip("DEADWIRE_PGBENCH is not set: a measurement, not a check")
	}
	s, err := testServer()
	assert.NilError(t, err)
	tap, err := Start(t.Context(), Config{Place: event.Front, Upstream: s.addr(), Recorder: event.NewJournal(nil, 0)})
	assert.NilError(t, err)
	defer func() { assert.NilError(t, tap.Close(t.Context())) }()
	pgbench(t, s.port, "-i", "-q", "-s", "1")
	ports := map[string]int{"direct": s.port, "tap": int(tap.Addr().Port())}
	for _, clients := range []string{"1", "8"} {
		got := map[string][]float64{}
		for range rounds {
			for path, port := range ports {
				got[path] = append(got[path], tps(t, pgbench(t, port, "-n", "-S", "-M", "prepared", "-c", clients, "-T", "2")))
			}
		}
		for path, all := range got {
			slices.Sort(all)
			median := all[len(all)/2]
			t.Logf("-c%s %-6s median %.0f tps, best %.0f (%v a transaction)", clients, path, median, all[len(all)-1],
				time.Duration(float64(time.Second)/median).Round(time.Microsecond))
		}
	}
}

func pgbench(t *testing.T, port int, args ...string) string {
	t.Helper()
	args = append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "postgres"}, args...)
	cmd := exec.CommandContext(t.Context(), "pgbench", append(args, "postgres")...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password, "PGSSLMODE=disable", "PGGSSENCMODE=disable")
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, string(out))
	return string(out)
}

func tps(t *testing.T, out string) float64 {
	t.Helper()
	m := regexp.MustCompile(`tps = ([0-9.]+)`).FindStringSubmatch(out)
	assert.Assert(t, m != nil, out)
	n, err := strconv.ParseFloat(m[1], 64)
	assert.NilError(t, err, fmt.Sprintf("tps of %q", out))
	return n
}
