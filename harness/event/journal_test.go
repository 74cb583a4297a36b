package event_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"deadwire/harness/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// awaitMax bounds every wait of these tests; none of them should need it.
const awaitMax = 10 * time.Second

func step(name string) event.Event {
	return event.Event{Kind: event.StepReached, Step: &event.Step{Name: name}}
}

func named(name string) func(event.Event) bool {
	return func(e event.Event) bool { return e.Step != nil && e.Step.Name == name }
}

func names(events []event.Event) []string {
	var out []string
	for _, e := range events {
		if e.Step != nil {
			out = append(out, e.Step.Name)
		} else {
			out = append(out, string(e.Kind))
		}
	}
	return out
}

func TestJournalNumbersEventsInTheOrderOfRecording(t *testing.T) {
	t.Parallel()
	j := event.NewJournal(nil, 0)
	for _, name := range []string{"a", "b", "c"} {
		j.Record(step(name))
	}
	events := j.Events()
	assert.DeepEqual(t, names(events), []string{"a", "b", "c"})
	for i, e := range events {
		assert.Equal(t, e.Seq, int64(i+1))
	}
	assert.Equal(t, j.Last(), int64(3))
	assert.Equal(t, event.NewJournal(nil, 0).Last(), int64(0))
}

func TestJournalStampsOnlyEventsWithoutATime(t *testing.T) {
	t.Parallel()
	j := event.NewJournal(nil, 0)
	j.Record(step("first"))
	before := j.Now()
	j.Record(step("second"))
	late := step("late report of something early")
	late.At = time.Nanosecond
	j.Record(late)
	events := j.Events()
	assert.Assert(t, events[0].At > 0 && events[0].At <= before)
	assert.Assert(t, events[1].At >= before && events[1].At <= j.Now())
	assert.Equal(t, events[2].At, time.Nanosecond)
}

func TestEventsIsACopy(t *testing.T) {
	t.Parallel()
	j := event.NewJournal(nil, 0)
	j.Record(step("kept"))
	j.Events()[0].Kind = event.JournalFull
	assert.Equal(t, j.Events()[0].Kind, event.StepReached)
}

func TestFullJournalSaysSoOnceAndCountsTheRest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name             string
		bound, recorded  int
		want             []string
		dropped, written int
	}{
		{"below the bound", 3, 2, []string{"x", "x"}, 0, 2},
		{"at the bound", 3, 3, []string{"x", "x", "journal.full"}, 1, 3},
		{"far beyond", 3, 10, []string{"x", "x", "journal.full"}, 8, 3},
		{"a bound of one", 1, 2, []string{"journal.full"}, 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			j := event.NewJournal(&out, test.bound)
			for range test.recorded {
				j.Record(step("x"))
			}
			assert.DeepEqual(t, names(j.Events()), test.want)
			assert.Equal(t, j.Dropped(), int64(test.dropped))
			assert.Equal(t, strings.Count(out.String(), "\n"), test.written)
		})
	}
}

func TestAwaitFindsWhatHasHappenedAlready(t *testing.T) {
	t.Parallel()
	j := event.NewJournal(nil, 0)
	for _, name := range []string{"a", "b", "a"} {
		j.Record(step(name))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel() // the past needs no waiting
	e, err := j.Await(over, 0, "a", named("a"))
	assert.NilError(t, err)
	assert.Equal(t, e.Seq, int64(1))
	e, err = j.Await(over, 1, "a after the first event", named("a"))
	assert.NilError(t, err)
	assert.Equal(t, e.Seq, int64(3))
}

func TestAwaitWaitsForTheFuture(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), awaitMax)
	defer cancel()
	j := event.NewJournal(nil, 0)
	got := make(chan event.Event, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		e, err := j.Await(ctx, 0, "the end", named("end"))
		assert.Check(t, err)
		got <- e
	})
	for range 100 {
		j.Record(step("something else"))
	}
	j.Record(step("end"))
	wg.Wait()
	assert.Equal(t, (<-got).Seq, int64(101))
}

func TestAwaitBeyondTheLastEventSkipsWhatComesBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), awaitMax)
	defer cancel()
	j := event.NewJournal(nil, 0)
	for range 3 {
		j.Record(step("a"))
	}
	e, err := j.Await(ctx, 2, "the third a", named("a"))
	assert.NilError(t, err)
	assert.Equal(t, e.Seq, int64(3))
}

func TestCancelledAwaitNamesWhatWasAwaitedAndWhy(t *testing.T) {
	t.Parallel()
	reason := errors.New("the run was interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	_, err := event.NewJournal(nil, 0).Await(ctx, 0, "the coordinator's session", named("never"))
	assert.ErrorIs(t, err, reason)
	assert.Error(t, err, "wait for the coordinator's session: the run was interrupted")
}

func TestReadGivesBackWhatWasRecorded(t *testing.T) {
	t.Parallel()
	code := 3
	var out bytes.Buffer
	j := event.NewJournal(&out, 0)
	j.Record(event.Event{Kind: event.ProcessExited, PID: 7, Process: &event.Process{Code: &code}})
	j.Record(event.Event{Kind: event.SessionMessage, Session: event.SessionID{Place: event.Back, N: 2}, Message: &event.Message{
		From: event.Backend, Type: "ReadyForQuery", Length: 6, Tx: "I",
	}})
	j.Record(event.Event{Kind: event.FaultInjected, Fault: &event.Fault{ID: "f1", Name: "network.cut", Spec: json.RawMessage(`{"manner":"fin"}`)}})
	back, err := event.Read(&out)
	assert.NilError(t, err)
	assert.DeepEqual(t, back, j.Events())
}

func TestReadOfADamagedJournal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	j := event.NewJournal(&out, 0)
	for _, name := range []string{"a", "b", "c"} {
		j.Record(step(name))
	}
	whole := out.String()
	lines := strings.SplitAfter(whole, "\n")
	for _, test := range []struct {
		name, text string
		want       []string
		err        string
	}{
		{"empty", "", nil, ""},
		{"torn in the last line", whole[:len(whole)-20], []string{"a", "b"}, ""},
		{"last line without its newline", whole[:len(whole)-1], []string{"a", "b", "c"}, ""},
		{"torn in the only line", lines[0][:10], nil, ""},
		{"corrupt in the middle", lines[0] + lines[1][:10] + "\n" + lines[2], []string{"a"}, "journal line 2: "},
		{"corrupt at the start", "x\n" + whole, nil, "journal line 1: "},
		{"a bad session id", `{"session":"front"}` + "\n" + whole, nil, "want PLACE/NUMBER"},
		{"a line beyond all bounds", strings.Repeat("x", 2<<20), nil, "token too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			events, err := event.Read(strings.NewReader(test.text))
			assert.DeepEqual(t, names(events), test.want)
			if test.err == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, test.err)
			}
		})
	}
}

// fullDisk accepts some bytes and then no more.
type fullDisk struct{ left int }

var errDisk = errors.New("no space left on device")

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left < len(p) {
		return 0, errDisk
	}
	d.left -= len(p)
	return len(p), nil
}

func TestJournalOutlivesAFullDisk(t *testing.T) {
	t.Parallel()
	j := event.NewJournal(&fullDisk{left: 100}, 0)
	j.Record(step("fits"))
	assert.NilError(t, j.Err())
	for range 3 {
		j.Record(step(strings.Repeat("x", 100)))
	}
	assert.ErrorIs(t, j.Err(), errDisk)
	assert.Equal(t, j.Last(), int64(4), "events stay in memory for the judges")
}

func TestEachEventIsOnDiskWhenRecordReturns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	j := event.NewJournal(&out, 0)
	for n := 1; n <= 3; n++ {
		j.Record(step("x"))
		assert.Equal(t, strings.Count(out.String(), "\n"), n)
	}
}

func TestJournalKeepsOrderUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 200
	var out bytes.Buffer
	j := event.NewJournal(&out, 0)
	ctx, cancel := context.WithTimeout(t.Context(), awaitMax)
	defer cancel()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				j.Record(step("x"))
				j.Last()
			}
		})
		wg.Go(func() {
			_, err := j.Await(ctx, 0, "the last event", func(e event.Event) bool { return e.Seq == writers*each })
			assert.Check(t, err)
		})
	}
	wg.Wait()
	back, err := event.Read(&out)
	assert.NilError(t, err)
	assert.Equal(t, len(back), writers*each)
	for i, e := range back {
		assert.Equal(t, e.Seq, int64(i+1))
		assert.Assert(t, i == 0 || e.At >= back[i-1].At, "stamps go up with the numbers")
	}
}

func TestAwaitNeverHoldsUpTheRecorder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), awaitMax)
	defer cancel()
	j := event.NewJournal(nil, 0)
	looking, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := j.Await(ctx, 0, "a slow look", func(event.Event) bool {
			once.Do(func() { close(looking) })
			<-goOn
			return true
		})
		assert.Check(t, err)
	})
	j.Record(step("x"))
	<-looking
	for range 1000 {
		j.Record(step("y"))
	}
	assert.Equal(t, j.Last(), int64(1001))
	close(goOn)
	wg.Wait()
}

func TestAwaitersWakeTogether(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), awaitMax)
	defer cancel()
	j := event.NewJournal(nil, 0)
	woken := make(chan int64, 5)
	for range cap(woken) {
		go func() {
			e, err := j.Await(ctx, 0, "x", named("x"))
			assert.Check(t, err)
			woken <- e.Seq
		}()
	}
	j.Record(step("x"))
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if len(woken) < cap(woken) {
			return poll.Continue("%d of %d woke", len(woken), cap(woken))
		}
		return poll.Success()
	}, poll.WithTimeout(awaitMax))
}

func BenchmarkRecord(b *testing.B) {
	message := event.Event{Kind: event.SessionMessage, Session: event.SessionID{Place: event.Front, N: 3}, Message: &event.Message{
		From: event.Frontend, Type: "Query", Length: 42, Verb: "SELECT",
	}}
	for _, bench := range []struct {
		name string
		j    *event.Journal
	}{
		{"memory", event.NewJournal(nil, 1<<30)},
		{"written", event.NewJournal(discard{}, 1<<30)},
		{"full", event.NewJournal(nil, 1)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench.j.Record(message)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
