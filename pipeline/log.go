package pipeline

import (
	"io"
	"log/slog"
)

// NewLogger writes one JSON object per line. The keys are fixed, since others read
// them: time, level, msg, run, batch, ledger, worker, pid, card, stage, backend_pid.
func NewLogger(to io.Writer) *slog.Logger { return newLogger(to, slog.LevelInfo) }

func newLogger(to io.Writer, least slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: least}))
}
