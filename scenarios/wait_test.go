package scenarios

import (
	"context"
	"testing"

	"deadwire/harness/wait"
)

// said returns what a check answered: "" for done, else its reason.
func said(t *testing.T, answer wait.Answer) string {
	t.Helper()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := wait.For(over, "it", func(context.Context) wait.Answer { return answer }); err != nil {
		return err.Error()
	}
	return ""
}
