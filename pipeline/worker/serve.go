package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"deadwire/pipeline/frame"
)

// Serve is the life of one worker process: greet, Init, one answer per job, and
// orderly leave when stdin ends. It returns nil after an orderly leave, and
// otherwise what went wrong (after having told the coordinator, where it could).
// seam must be the same as the coordinator's.
//
// Two signals are ignored from here on, for the whole process: SIGPIPE, so that a
// vanished coordinator is an error to handle and Close still runs; and SIGINT,
// since a terminal sends it to the workers too, whose end is their coordinator's business.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer, handler Handler, seam Seam) error {
	signal.Ignore(syscall.SIGPIPE, syscall.SIGINT)
	s := &server{
		orders: frame.NewReader(stdin, 0), answers: frame.NewWriter(stdout, 0),
		handler: handler, seam: seam, atExit: func() {},
	}
	var hello greeting
	setup, err := s.orders.ReadJSON(&hello)
	if err != nil {
		return fmt.Errorf("read greeting: %w", err)
	}
	s.number = hello.Worker
	// the socket must outlive every use of its descriptor: a collected os.File closes it
	defer runtime.KeepAlive(s)
	defer s.leave()
	if err := s.init(ctx, hello, setup); err != nil {
		refusal := s.answers.WriteJSON(answer{Kind: answerRefused, Error: err.Error(), ErrorKind: kind(err)}, nil)
		return errors.Join(fmt.Errorf("init worker %d: %w", s.number, err), refusal)
	}
	if err := s.answers.WriteJSON(answer{Kind: answerReady}, nil); err != nil {
		return fmt.Errorf("report ready: %w", err)
	}
	return s.loop(ctx)
}

var errNotJSON = errors.New("handler returned a value that is not JSON")

type server struct {
	number  int
	orders  *frame.Reader
	answers *frame.Writer
	handler Handler
	seam    Seam
	socket  *os.File // inherited; nil without a seam
	atExit  func()
}

func (s *server) init(ctx context.Context, hello greeting, setup []byte) error {
	if hello.Inherited && s.seam.Inherited != nil {
		if err := s.inherit(); err != nil {
			return fmt.Errorf("meet inherited session: %w", err)
		}
	}
	return s.handler.Init(ctx, s.number, setup)
}

func (s *server) inherit() error {
	// not passed on by accident: what this process executes is not part of the experiment
	syscall.CloseOnExec(inheritedFD)
	// NewFile reads O_NONBLOCK and leaves it as it is (os/file_unix.go, kindNewFile)
	s.socket = os.NewFile(inheritedFD, "inherited session")
	atExit, err := s.seam.Inherited(s.number, s.socket)
	if atExit != nil {
		s.atExit = atExit
	}
	return err
}

func (s *server) leave() {
	s.handler.Close()
	s.atExit()
}

func (s *server) loop(ctx context.Context) error {
	for {
		var next order
		body, err := s.orders.ReadJSON(&next)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read order: %w", err)
		}
		if err := s.answers.WriteJSON(s.do(ctx, Job{ID: next.ID, Args: next.Args, Body: body}), nil); err != nil {
			return fmt.Errorf("answer job %s: %w", next.ID, err)
		}
	}
}

// do lets a panic through: a crash must look like a crash
func (s *server) do(ctx context.Context, job Job) answer {
	if claimer, ok := s.handler.(Claimer); ok {
		if err := claimer.Claim(ctx, job); err != nil {
			return answer{Kind: answerError, Error: err.Error(), ErrorKind: kind(err)}
		}
	}
	if s.seam.Compute != nil {
		if err := s.seam.Compute(s.number, job.ID); err != nil {
			return answer{Kind: answerError, Error: err.Error(), ErrorKind: kind(err)}
		}
	}
	value, err := s.handler.Do(ctx, job)
	if err == nil && len(value) > 0 && !json.Valid(value) {
		err = errNotJSON
	}
	if err != nil {
		return answer{Kind: answerError, Error: err.Error(), ErrorKind: kind(err)}
	}
	return answer{Kind: answerDone, Value: value}
}
