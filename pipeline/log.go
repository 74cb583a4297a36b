package pipeline

import (
	"io"
	"log/slog"
)

// NewLogger writes one JSON object per line. The keys are fixed, since others read
// them: time, level, msg, run, batch, ledger, worker, pid, card, stage, backend_pid.
func NewLogger(to io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, nil))
}
