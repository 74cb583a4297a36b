package faultstest_test

import (
	"strconv"
	"syscall"

	"gotest.tools/v3/assert"

	"deadwire/faults/faultstest"
	"deadwire/faults/fork"
	"deadwire/faults/process"
	"deadwire/harness/event"
	"deadwire/harness/subject"
)

// started is a subject in that role, which waits to be told.
func started(role string) func(*stage) {
	return func(s *stage) {
		s.Start(role)
		s.Says("^waiting$")
	}
}

// withFamily starts a subject that has a child, and keeps the child's pid.
func withFamily(s *stage) {
	s.Start("family")
	s.Kept = pid(s, `^child (\d+)$`)
	s.Says("^waiting$")
}

func pid(s *stage, pattern string) int {
	n, err := strconv.Atoi(s.Says(pattern))
	assert.NilError(s.T, err)
	return n
}

// moves waits until a process no longer stands still.
func moves(s *stage, pid int) {
	s.Until("the process to go on", func() bool { return faultstest.State(pid) != "T" })
}

func opens(pattern string) func(*stage) {
	return func(s *stage) {
		assert.NilError(s.T, s.Subject.Signal(syscall.SIGHUP))
		s.Says(pattern)
	}
}

func processPlays() []faultstest.Play {
	return []faultstest.Play{
		{Fault: process.Signal{Signal: "KILL", Process: "coordinator"}, Before: started("sleeper"), Meet: func(s *stage) {
			assert.Equal(s.T, s.Exit(), subject.Exit{Code: -1, Signal: syscall.SIGKILL})
		}},
		{Fault: process.Freeze{Process: "coordinator"}, Before: started("sleeper"), Meet: func(s *stage) {
			assert.Equal(s.T, faultstest.State(s.Subject.PID()), "T")
		}, After: func(s *stage) { moves(s, s.Subject.PID()) }},
		{Fault: process.Freeze{Process: "coordinator", ForMS: 50}, Before: started("sleeper"), Meet: func(s *stage) {
			s.AwaitBite()
			moves(s, s.Subject.PID())
		}},
		{Fault: process.Descriptors{Process: "coordinator"}, Before: started("opener"), Meet: opens("^refused: .*too many open files"), After: opens("^opened")},
		{Fault: process.Orphan{}, Before: withFamily, Meet: func(s *stage) {
			assert.Equal(s.T, s.Exit().Signal, syscall.SIGKILL)
			assert.Equal(s.T, faultstest.State(s.Kept.(int)), "T")
		}, After: func(s *stage) {
			moves(s, s.Kept.(int))
			assert.Assert(s.T, s.Subject.Alive(s.Kept.(int)))
		}},
		{Fault: process.SlowStart{MS: 300_000}, Meet: func(s *stage) {
			s.Start("family")
			bitten := s.AwaitBite().PID
			assert.Equal(s.T, faultstest.State(bitten), "T")
			s.Kept = bitten
		}, After: func(s *stage) {
			if s.Kept != nil {
				moves(s, s.Kept.(int))
			}
		}},
	}
}

// ends runs a worker and checks how the kernel says that it ended.
func ends(want subject.Exit) func(*stage) {
	return func(s *stage) {
		s.Start("worker")
		assert.Equal(s.T, s.Exit(), want)
	}
}

// completes runs a worker that is not told anything any more.
func completes(s *stage) {
	s.Again("worker")
	s.Says("^done job-3$")
}

func computePlays() []faultstest.Play {
	return []faultstest.Play{
		{Fault: process.Signal{Signal: "TERM", Process: "worker", In: "compute"}, After: completes, Meet: ends(subject.Exit{Code: -1, Signal: syscall.SIGTERM})},
		{Fault: process.Signal{Signal: "KILL", Process: "worker", In: "compute"}, After: completes, Meet: ends(subject.Exit{Code: -1, Signal: syscall.SIGKILL})},
		{Fault: process.Freeze{Process: "worker", In: "compute"}, Meet: func(s *stage) {
			s.Start("worker")
			s.Says("^done job-1$")
			assert.Equal(s.T, faultstest.State(s.AwaitBite().PID), "T")
		}, After: completes},
		{Fault: process.Panic{}, After: completes, Meet: ends(subject.Exit{Code: 2})},
		{Fault: process.Exit{Code: 7}, After: completes, Meet: ends(subject.Exit{Code: 7})},
		{Fault: process.Memory{LimitMB: 128}, After: completes, Meet: ends(subject.Exit{Code: -1, Signal: syscall.SIGKILL})},
		{Fault: process.CPU{MS: 100}, After: completes, Meet: func(s *stage) {
			s.Start("worker")
			s.Says("^done job-2$")
			used := faultstest.CPUTime(s.Subject.PID())
			assert.Assert(s.T, used >= 0.09, "used %.3f s of processor time", used)
		}},
	}
}

// coordinates runs a coordinator with a child that inherits its session, and
// checks what the coordinator finds afterwards.
func coordinates(want string) func(*stage) {
	return func(s *stage) {
		s.Again("forker")
		s.Says("^coordinator: " + want)
	}
}

// holds kills the coordinator and checks that the server keeps the session for
// as long as the child lives.
func holds(s *stage) {
	s.Start("forker")
	child := pid(s, `^child (\d+) has met`)
	s.Says("^coordinator: mine")
	assert.NilError(s.T, s.Subject.Signal(syscall.SIGKILL))
	s.Exit()
	s.AwaitBackends(1)
	for _, e := range s.Lane.Journal.Events() {
		assert.Assert(s.T, e.Kind != event.SessionClosing, "it ended with the coordinator: %+v", e.Closing)
	}
	assert.NilError(s.T, s.Subject.SignalPID(child, syscall.SIGTERM))
	s.AwaitBackends(0)
}

func forkPlays() []faultstest.Play {
	healed := coordinates("mine <nil>")
	lost := coordinates(".*(EOF|reset|closed|broken pipe)")
	return []faultstest.Play{
		{Fault: fork.Fork{Do: fork.Terminate}, Meet: lost, After: healed},
		{Fault: fork.Fork{Do: fork.TerminateAtExit}, Meet: lost, After: healed},
		{Fault: fork.Fork{Do: fork.Shutdown}, Meet: lost, After: healed},
		{Fault: fork.Fork{Do: fork.Query}, Meet: coordinates("answer for worker 1"), After: healed},
		{Fault: fork.Fork{Do: fork.Hold}, Meet: holds, After: healed},
		{Fault: fork.Fork{Do: fork.Close}, Meet: healed, After: healed},
		{Fault: fork.Fork{Do: fork.Discard}, Meet: healed, After: healed},
		{Fault: fork.Fork{Do: fork.CloseBeforeStart}, Meet: coordinates(".*closed"), After: healed},
	}
}
