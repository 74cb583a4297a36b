package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"deadwire/harness/subject"
)

// besideWorkers is how many workers each dispatcher beside the first is given.
const besideWorkers = 1

// dispatcher returns one of conveyor's dispatching commands with what all of a
// case's dispatchers have in common.
func (a *attempt) dispatcher(args, env []string) subject.Command {
	w, p := a.scenario.Workload, a.runner.Subject
	args = append(append([]string{}, p.Args...), args...)
	args = append(args,
		"--source", a.images.URL(a.runner.catalogue(a.scenario)), "--batch", strconv.Itoa(w.Batch),
		"--run-id", fmt.Sprintf("%s-%d", a.name, time.Now().UnixMicro()),
		"--db-timeout", fmt.Sprintf("%dms", w.DBTimeoutMS))
	if w.Rate > 0 {
		args = append(args, "--rate", strconv.Itoa(w.Rate))
	}
	env = append(append(env, p.Env...), fmt.Sprintf("PGCONNECT_TIMEOUT=%d", w.ConnectTimeoutS))
	return subject.Command{Path: p.Path, Args: args, Env: env, Stdout: a.output, Stderr: a.output}
}

// startBeside starts the dispatchers beside the first. None of them is told to
// misbehave; what is done to sessions and to the server meets them too.
func (a *attempt) startBeside(ctx context.Context) error {
	if len(a.scenario.Command) > 0 {
		return nil
	}
	for range max(a.scenario.Workload.Dispatchers, 1) - 1 {
		command := a.dispatcher([]string{"sweep", "--workers", strconv.Itoa(besideWorkers)}, a.lane.Env())
		other, err := a.lane.Start(ctx, command)
		if err != nil {
			return fmt.Errorf("start a dispatcher beside the first: %w", err)
		}
		a.beside = append(a.beside, other)
	}
	return nil
}

// instances returns the first process's instance and those beside it.
func (a *attempt) instances() []*subject.Instance {
	return append([]*subject.Instance{a.instance}, a.beside...)
}

// pids returns the live processes of all instances.
func (a *attempt) pids() []int {
	var pids []int
	for _, i := range a.instances() {
		pids = append(pids, i.PIDs()...)
	}
	return pids
}

func (a *attempt) closeAll(ctx context.Context) error {
	var errs []error
	for _, i := range a.instances() {
		errs = append(errs, i.Close(ctx))
	}
	return errors.Join(errs...)
}

// measures notes what conveyor was given, by which its sessions are counted.
func (a *attempt) measures(out *result) {
	out.beside, out.paced = len(a.beside), a.scenario.Workload.Rate > 0
	out.workers = a.scenario.Workload.Workers + len(a.beside)*besideWorkers
}

// memoryLook is how often the first process's memory is looked at.
const memoryLook = 100 * time.Millisecond

// waitMeasuring waits for the first process's end and takes in its memory meanwhile.
func (a *attempt) waitMeasuring(ctx context.Context, out *result) (subject.Exit, error) {
	tick := time.NewTicker(memoryLook)
	defer tick.Stop()
	for {
		select {
		case <-a.instance.Exited():
			return a.instance.Wait(ctx)
		case <-ctx.Done():
			return a.instance.Wait(ctx)
		case <-tick.C:
			out.memory = max(out.memory, a.instance.Memory())
		}
	}
}
