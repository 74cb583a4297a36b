package diagnose_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
)

// What to change is said for the software that was seen, and for all where none was.
func TestMendIsForTheSoftwareThatWasSeen(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		seen         []string
		driver       string
		argv         []string
		says, saysNo []string
	}{
		"nothing seen":      {says: []string{"psycopg:", "ActiveRecord:", "DBI:"}},
		"a driver":          {seen: []string{"DBD::Pg", "libpq"}, says: []string{"AutoInactiveDestroy => 1"}, saysNo: []string{"PQfinish", "psycopg", "ActiveRecord"}},
		"the bare library":  {seen: []string{"libpq"}, says: []string{"PQfinish"}, saysNo: []string{"psycopg"}},
		"two parts of one":  {seen: []string{"PDO", "PHP pgsql"}, says: []string{"pcntl_fork"}, saysNo: []string{"pcntl_fork(); the destructor of an inherited connection says goodbye for whoever ends first. PHP"}},
		"habits of a start": {driver: "asyncpg", says: []string{"event loop"}, saysNo: []string{"ActiveRecord"}},
		"a server's name":   {seen: []string{"psycopg2"}, argv: []string{"/usr/bin/python3", "/usr/bin/gunicorn", "app"}, says: []string{"post_fork", "psycopg2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := family(child).share(opener, child).terminate(child, opener, child).subjectEnds(event.Terminate).events
			for i := range events {
				switch e := &events[i]; {
				case e.Kind == event.SessionOpened && e.Session == front(1):
					e.Opened.Software = tt.seen
				case e.Kind == event.SessionNamed && e.Session == front(1):
					e.Named.Driver = tt.driver
				case e.Kind == event.ProcessStarted && e.PID == opener && tt.argv != nil:
					e.Process.Argv = tt.argv
				}
			}
			ending := diagnose.Explain(events).Endings[0]
			assert.Equal(t, ending.Rule, "fork.inherited-terminate")
			for _, text := range tt.says {
				assert.Assert(t, strings.Contains(ending.Mend, text), ending.Mend)
			}
			for _, text := range tt.saysNo {
				assert.Assert(t, !strings.Contains(ending.Mend, text), ending.Mend)
			}
		})
	}
}
