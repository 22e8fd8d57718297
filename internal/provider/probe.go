package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"time"
)

// probeOutput is how much of a probe's output is read, in bytes.
const probeOutput = 64 << 10

// probeGrace is how long a probe may take to end after it was told to, and how
// long a grandchild may keep the output open after it.
const probeGrace = time.Second

// probe runs a program for its output (both streams): standard input is
// /dev/null, since some agents wait for its end. When ctx ends, the program and
// its group are told to end, and killed if they do not: start files of a login
// shell hold locks that they give back when they are asked. It leaves no process
// of its group in any case.
func probe(ctx context.Context, path string, args []string, env []string) (string, error) {
	out := &headWriter{room: probeOutput}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = probeGrace
	ownGroup(cmd)
	cmd.Cancel = func() error { return endGroup(cmd) }
	runtime.LockOSThread() // on Linux a probe dies with the thread that started it
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if cmd.Process != nil {
		_ = killGroup(cmd) // what it left behind; usually nothing
	}
	switch {
	case ctx.Err() != nil:
		return out.String(), fmt.Errorf("no answer in time: %w", ctx.Err())
	case errors.Is(err, exec.ErrWaitDelay): // it ended well, something of it lingered
		return out.String(), nil
	}
	return out.String(), err
}

// headWriter keeps the first bytes that are written to it.
type headWriter struct {
	room int
	kept []byte
}

func (w *headWriter) Write(p []byte) (int, error) {
	w.kept = append(w.kept, p[:min(len(p), w.room-len(w.kept))]...)
	return len(p), nil
}

func (w *headWriter) String() string { return string(w.kept) }

var _ io.Writer = (*headWriter)(nil)
