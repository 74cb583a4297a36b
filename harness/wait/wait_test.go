package wait_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/wait"
)

func TestForReturnsAtTheFirstDone(t *testing.T) {
	t.Parallel()
	looks := 0
	err := wait.For(t.Context(), "a fact", func(context.Context) wait.Answer {
		looks++
		if looks < 3 {
			return wait.NotYet("look %d", looks)
		}
		return wait.Done()
	})
	assert.NilError(t, err)
	assert.Equal(t, looks, 3)
}

func TestForEndsAtOnceWhenTheFactCannotCome(t *testing.T) {
	t.Parallel()
	gone := errors.New("the server has exited")
	looks := 0
	err := wait.For(t.Context(), "the server", func(context.Context) wait.Answer {
		looks++
		return wait.Never(gone)
	})
	assert.ErrorIs(t, err, gone)
	assert.Error(t, err, "wait for the server: the server has exited")
	assert.Equal(t, looks, 1)
}

func TestExpiredForSaysWhatWasSeenLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		looks := 0
		err := wait.For(ctx, "three sessions", func(context.Context) wait.Answer {
			looks++
			return wait.NotYet("%d of 3 after look %d", 2, looks)
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Error(t, err, fmt.Sprintf("wait for three sessions: context deadline exceeded (last seen: 2 of 3 after look %d)", looks))
	})
}

func TestCancelledForNamesTheCause(t *testing.T) {
	t.Parallel()
	reason := errors.New("interrupted by the user")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := wait.For(ctx, "anything", func(context.Context) wait.Answer {
		cancel(reason)
		return wait.NotYet("nothing")
	})
	assert.ErrorIs(t, err, reason)
	assert.Error(t, err, "wait for anything: interrupted by the user (last seen: nothing)")
}

func TestForLooksOnceEvenWhenItIsLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := wait.For(ctx, "a fact that holds already", func(context.Context) wait.Answer { return wait.Done() })
	assert.NilError(t, err)
}

func TestCheckGetsTheCallersContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "mine")
	err := wait.For(ctx, "x", func(inner context.Context) wait.Answer {
		assert.Equal(t, inner.Value(key{}), "mine")
		return wait.Done()
	})
	assert.NilError(t, err)
}

// A fact that is near is seen within a millisecond or two; one that is far costs
// 40 looks a second and no more.
func TestForLooksOftenAtFirstAndRarelyLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := wait.For(ctx, "x", func(context.Context) wait.Answer {
			at = append(at, time.Since(began))
			return wait.NotYet("")
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.DeepEqual(t, at[:4], []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 7 * time.Millisecond})
		assert.Assert(t, len(at) > 400 && len(at) < 410, "%d looks in 10 s", len(at))
	})
}
