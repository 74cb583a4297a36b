package pipeline

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/evidence"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
	"deadwire/pipeline/worker"
)

// workerSetup travels to each worker over its pipe, because it holds the URL, and
// a URL may hold a password that no argument or environment should show.
type workerSetup struct {
	Database session.Config `json:"database"`
	Run      string         `json:"run"`
	Level    slog.Level     `json:"level"`
}

// jobArgs is a job without its image.
type jobArgs struct {
	Card    int64         `json:"card"`
	PHash   int64         `json:"phash"`
	MD5     string        `json:"md5"`
	DPI     int           `json:"dpi"`
	Latency time.Duration `json:"latency"`
	Stored  bool          `json:"stored"` // evidence of some version is there
}

// jobReply says what became of a card: "" when its evidence was stored, else a
// named skip of package dispatch.
type jobReply struct {
	Skip string `json:"skip,omitempty"`
}

// computer is the worker's side of Stage C: it computes a card's evidence and
// persists it on a session of its own.
type computer struct {
	stderr  io.Writer
	log     *slog.Logger
	run     string
	number  int
	session *session.Session
	text    *readers // nil: no text can be read here
}

// ServeWorker is the worker mode: it answers jobs on stdin until stdin ends, logs to
// stderr, and returns nil after an orderly leave.
func ServeWorker(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, seam worker.Seam) error {
	return worker.Serve(ctx, stdin, stdout, &computer{stderr: stderr, log: NewLogger(stderr)}, seam)
}

// Init opens the worker's own session.
func (c *computer) Init(ctx context.Context, number int, setup []byte) error {
	var s workerSetup
	err := json.Unmarshal(setup, &s)
	if err != nil {
		return fmt.Errorf("read worker setup: %w", err)
	}
	c.run, c.number = s.Run, number
	c.session, err = session.Open(ctx, s.Database, fmt.Sprintf("worker-%d", number))
	if err != nil {
		return err
	}
	c.text = newReaders(c.lexicon)
	c.log = newLogger(c.stderr, s.Level).With("run", s.Run, "worker", number, "pid", os.Getpid(), "backend_pid", c.session.BackendPID())
	c.log.Info("worker ready")
	return nil
}

// Close ends the worker's session.
func (c *computer) Close() {
	if c.session == nil {
		return
	}
	err := c.session.Close(context.Background())
	if err != nil {
		c.log.Warn("worker session ended badly", "error", err.Error())
	}
}

// Claim notes that the card is in hand, so that one whose compute kills workers is
// known by it even when nobody is left to tell.
func (c *computer) Claim(ctx context.Context, job worker.Job) error {
	var args jobArgs
	err := json.Unmarshal(job.Args, &args)
	if err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	_, err = c.session.Exec(ctx, schema.Claim, args.Card, c.run, dispatch.WorkerName(c.number, os.Getpid()))
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	return nil
}

// unclaim takes the claim back after an ending that the worker survived. Where the
// session was lost, the coordinator does it when it hears the error.
func (c *computer) unclaim(ctx context.Context, card int64) {
	if c.session.Lost() {
		return
	}
	_, err := c.session.Exec(ctx, schema.Unclaim, card)
	if err != nil {
		c.log.Warn("claim was not taken back", "card", card, "error", err.Error())
	}
}

// Do computes one card's evidence and stores it.
func (c *computer) Do(ctx context.Context, job worker.Job) (json.RawMessage, error) {
	var args jobArgs
	err := json.Unmarshal(job.Args, &args)
	if err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	reply, err := c.card(ctx, args, job.Body)
	if err != nil || reply.Skip == dispatch.WrongImage {
		c.unclaim(ctx, args.Card)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply)
}

// card tells a source that sent the wrong bytes (nothing is stored, a later run
// tries again) from an image that is damaged as its owner uploaded it (stored,
// since no later fetch could find anything else).
func (c *computer) card(ctx context.Context, args jobArgs, image []byte) (jobReply, error) {
	sum := md5.Sum(image)
	if args.MD5 != "" && hex.EncodeToString(sum[:]) != args.MD5 {
		return jobReply{Skip: dispatch.WrongImage}, nil
	}
	found, err := c.extract(ctx, args, image)
	_, damaged := errors.AsType[*evidence.DecodeError](err)
	switch {
	case damaged && args.MD5 == "":
		return jobReply{Skip: dispatch.WrongImage}, nil
	case damaged:
		return jobReply{Skip: dispatch.DamagedImage}, c.persist(ctx, args, found)
	case err != nil:
		return jobReply{}, fmt.Errorf("extract evidence: %w", err)
	}
	return jobReply{}, c.persist(ctx, args, found)
}

// persist writes a card's evidence and its scan log in one transaction: no crash can
// leave one without the other. Its commit is a word of its own, so that one whose answer
// was lost is seen to be just that.
func (c *computer) persist(ctx context.Context, args jobArgs, found evidence.Evidence) error {
	reasons := make([]string, 0, len(found.Skips))
	for _, skip := range found.Skips {
		reasons = append(reasons, skip.Extractor+":"+skip.Reason)
	}
	err := c.session.InTx(ctx, func(tx *session.Tx) error {
		stored, err := session.Value[int64](ctx, tx, schema.Persist, args.Card, found, args.PHash, c.run, dispatch.Agent, reasons)
		return session.Expect(1)(stored, err)
	})
	if err != nil {
		return fmt.Errorf("persist: %w", err)
	}
	return nil
}
