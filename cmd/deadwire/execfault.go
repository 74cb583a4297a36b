package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"deadwire/faults"
	"deadwire/harness"
	"deadwire/harness/event"
	"deadwire/harness/subject"
	"deadwire/harness/tap"
	"deadwire/scenarios"
)

// injectMax bounds an injection: a restart of the server takes longest.
const injectMax = 30 * time.Second

// parseFaults reads --fault: NAME:KEY=VALUE,… with dots for nested keys and
// `when.` for the trigger, or a JSON object as an entry of a scenario's faults.
func parseFaults(specs []string) ([]scenarios.FaultStep, error) {
	var steps []scenarios.FaultStep
	for _, spec := range specs {
		text := []byte(spec)
		if !strings.HasPrefix(strings.TrimSpace(spec), "{") {
			text = faultJSON(spec)
		}
		var step scenarios.FaultStep
		if err := json.Unmarshal(text, &step); err != nil {
			return nil, usageError("--fault %s: %w\nsee: deadwire faults", spec, err)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// faultJSON turns the short form into the long one. Values that are no JSON
// scalars are text.
func faultJSON(spec string) []byte {
	name, rest, _ := strings.Cut(spec, ":")
	params := map[string]any{}
	entry := map[string]any{name: params}
	for _, pair := range strings.Split(rest, ",") {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			if key != "" {
				params[key] = true
			}
			continue
		}
		into := params
		path := strings.Split(strings.TrimSpace(key), ".")
		if path[0] == "when" && len(path) > 1 {
			into = nested(entry, path[0])
			path = path[1:]
		}
		for _, step := range path[:len(path)-1] {
			into = nested(into, step)
		}
		into[path[len(path)-1]] = scalar(value)
	}
	text, _ := json.Marshal(entry) // maps and scalars only
	return text
}

func nested(in map[string]any, key string) map[string]any {
	if inner, ok := in[key].(map[string]any); ok {
		return inner
	}
	inner := map[string]any{}
	in[key] = inner
	return inner
}

func scalar(text string) any {
	var value any
	if json.Unmarshal([]byte(text), &value) == nil {
		return value
	}
	return text
}

// injector injects the faults of one run and heals them.
type injector struct {
	steps   []scenarios.FaultStep
	targets []faults.Target
	journal *event.Journal
	running sync.WaitGroup

	mu      sync.Mutex
	heals   []faults.Heal
	removes []func()
}

func newInjector(steps []scenarios.FaultStep, lane *harness.Lane, instance func() *subject.Instance, own func(kind, value string) error) *injector {
	i := &injector{steps: steps, journal: lane.Journal}
	for n := range steps {
		i.targets = append(i.targets, faults.Target{
			ID: fmt.Sprintf("f%d", n+1), Server: lane.Database.Server(), Front: lane.Front, Back: lane.Back, Link: lane.Link,
			Journal: lane.Journal, Admin: lane.Database.Admin, Database: lane.Database.Name(),
			ServerIsOurs: lane.Database.Server().PID() != 0, Subject: instance, Own: own,
		})
	}
	return i
}

func early(step scenarios.FaultStep) bool {
	armer, ok := step.Fault.(faults.Armer)
	if ok {
		return armer.Arm()
	}
	return step.When.IsZero()
}

// arm injects what must be set before the program starts.
func (i *injector) arm(ctx context.Context) error {
	for n, step := range i.steps {
		if !early(step) {
			continue
		}
		if err := i.inject(ctx, n); err != nil {
			return usageError("--fault: %w", err)
		}
	}
	return nil
}

// spring starts waiting for the triggers of the others.
func (i *injector) spring(ctx context.Context) {
	for n, step := range i.steps {
		if early(step) {
			continue
		}
		message := i.watch(n)
		i.running.Go(func() {
			if step.When.Wait(ctx, i.targets[n], message) != nil {
				return // the program ended before
			}
			acting, cancel := context.WithTimeout(context.WithoutCancel(ctx), injectMax)
			defer cancel()
			if err := i.inject(acting, n); err != nil {
				i.journal.Record(event.Event{Kind: event.WitnessFailed, Step: &event.Step{Name: "fault", Note: err.Error()}})
			}
		})
	}
}

// watch returns a channel that is closed when the trigger's message passes.
func (i *injector) watch(n int) <-chan struct{} {
	want := i.steps[n].When.Message
	if want == nil {
		return nil
	}
	seen := make(chan struct{})
	var once sync.Once
	remove := i.targets[n].Front.AddRule(tap.Rule{
		Match: func(s *tap.Session, m event.Message) bool {
			if want.Matches(s.ApplicationName(), m) {
				once.Do(func() { close(seen) })
			}
			return false
		},
		Do: tap.Drop{},
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.removes = append(i.removes, remove)
	return seen
}

func (i *injector) inject(ctx context.Context, n int) error {
	heal, err := faults.Inject(ctx, i.steps[n].Fault, i.targets[n])
	i.mu.Lock()
	defer i.mu.Unlock()
	if heal != nil {
		i.heals = append(i.heals, heal)
	}
	return err
}

// heal takes everything back, the last one first. The context that the triggers
// wait under must have ended.
func (i *injector) heal(ctx context.Context) error {
	i.running.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, remove := range i.removes {
		remove()
	}
	var errs []error
	for _, heal := range slices.Backward(i.heals) {
		errs = append(errs, heal(ctx))
	}
	return errors.Join(errs...)
}
