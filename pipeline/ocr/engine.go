// Package ocr owns reading a card's small print: the engine that is run, the ladder
// of image variants that it is shown, and what is accepted of its answers. It does
// not decode images or store anything, and the words that cards may bear come from
// outside (Lexicon). The engine is authoritative about text; the lexicon, about
// whether text can be true.
package ocr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"os"
	"os/exec"
	"strings"
	"time"
)

// program is Tesseract (Debian: tesseract-ocr), chosen because it is the one
// open OCR engine that every distribution ships. It is run as a process: its crash
// or hang is not ours, and no C library is linked.
const program = "tesseract"

// callMax bounds one call of the engine; an ordinary one takes a fifth of a second.
const callMax = 20 * time.Second

// Engine is an installed Tesseract. It is safe for concurrent use.
type Engine struct {
	path    string
	timeout time.Duration
}

// Find looks for Tesseract on the PATH. The error says what is missing.
func Find() (*Engine, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("find OCR engine: %w (Debian package tesseract-ocr)", err)
	}
	return &Engine{path: path, timeout: callMax}, nil
}

// Available says whether text can be read on this host.
func Available() bool {
	_, err := Find()
	return err == nil
}

// ErrTimeout says that the engine did not answer in time.
var ErrTimeout = errors.New("OCR engine took too long")

// read returns the text of each page. All pages go through one process, since its
// start costs more than a page.
func (e *Engine) read(ctx context.Context, pages []*image.Gray) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, ErrTimeout)
	defer cancel()
	// --psm 6: a block of text; --oem 1: the LSTM engine; dictionaries would turn codes into words
	cmd := exec.CommandContext(ctx, e.path, "stdin", "stdout", "--psm", "6", "--oem", "1", "-l", "eng",
		"-c", "load_system_dawg=0", "-c", "load_freq_dawg=0", "-c", "tessedit_do_invert=0")
	cmd.Env = environment()
	cmd.Stdin = bytes.NewReader(encodePages(pages))
	cmd.SysProcAttr = dieWithUs()
	cmd.WaitDelay = time.Second
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &limited{Buffer: &complaint}
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("run OCR engine: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("run OCR engine: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	texts := strings.Split(out.String(), "\f") // parts pages since version 5, ends each before
	if len(texts) != len(pages) && len(texts) != len(pages)+1 {
		return nil, fmt.Errorf("run OCR engine: %d pages answered of %d: %s", len(texts), len(pages), strings.TrimSpace(complaint.String()))
	}
	return texts[:len(pages)], nil
}

// environment pins OpenMP to one thread: more of them cost 28 times the processor
// time for the same text, since workers compete already. No database URL or
// password of ours travels along.
func environment() []string {
	env := []string{"OMP_THREAD_LIMIT=1", "LC_ALL=C"}
	for _, name := range []string{"PATH", "TESSDATA_PREFIX", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// limited keeps the beginning of a complaint
type limited struct{ *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	const most = 500
	_, _ = l.Buffer.Write(p[:min(len(p), max(0, most-l.Len()))]) // a buffer never fails
	return len(p), nil
}
