package proc

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// A Command is a program that is run for what it prints. It is no runtime: it
// has no id and no entry in the ledger, and is not meant to outlive its caller.
type Command struct {
	Path  string        // the program
	Args  []string      // its arguments, without the program's name
	Env   []string      // its whole environment; see Environment
	Limit int           // how many bytes of output are kept; the rest is read and dropped
	Grace time.Duration // from TERM to KILL, when ctx ends; 0 = DefaultTermWait

	WithStderr bool // what it complains counts as output; otherwise it is dropped
}

// Output runs a program, with nothing to read, and returns the beginning of what
// it printed. When ctx ends the program's group is asked to leave, and killed if
// it does not; start files of a login shell hold locks that they give back when
// they are asked. Nothing of its group is left in any case.
//
// The error is ctx's cause when ctx ended, an *exec.ExitError when the program
// failed, else the system's. There may be output besides an error.
func Output(ctx context.Context, c Command) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer null.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("make a pipe: %w", err)
	}
	defer reader.Close()
	files := []*os.File{null, writer, null}
	if c.WithStderr {
		files[2] = writer
	}
	runtime.LockOSThread() // on Linux the program dies with the thread that started it
	defer runtime.UnlockOSThread()
	process, relatives, err := spawn(c.Path, c.Args, &os.ProcAttr{Env: c.Env, Files: files})
	_ = writer.Close()
	if err != nil {
		return "", err
	}
	defer relatives.close()
	head := head{room: c.Limit}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(&head, reader) })
	state, err := c.finish(ctx, process, relatives)
	awaitRead(&reading, reader)
	if cause := context.Cause(ctx); cause != nil {
		return head.String(), cause
	}
	if err == nil && !state.Success() {
		err = &exec.ExitError{ProcessState: state}
	}
	return head.String(), err
}

// finish waits for a program's end, hastens it when ctx ends, and clears its
// group before it is reaped, since after that the group's number may be
// another's.
func (c Command) finish(ctx context.Context, process *os.Process, relatives *kin) (*os.ProcessState, error) {
	exited := make(chan error, 1)
	go func() { exited <- waitExit(process) }() // received below in any case
	waited := false
	var err error
	select {
	case err = <-exited:
		waited = true
	case <-ctx.Done():
		relatives.terminate()
		grace := c.Grace
		if grace == 0 {
			grace = DefaultTermWait
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case err = <-exited:
			waited = true
		case <-timer.C:
		}
	}
	relatives.kill()
	if !waited {
		err = <-exited // no deadline: it was killed
	}
	state, reaped := process.Wait()
	if err != nil {
		return nil, fmt.Errorf("wait for the program: %w", err)
	}
	return state, reaped
}

// awaitRead waits until the output is read. What left the group may keep the pipe
// open; it delays the caller by DefaultDrainWait at most.
func awaitRead(reading *sync.WaitGroup, reader *os.File) {
	late := time.AfterFunc(DefaultDrainWait, func() { _ = reader.Close() })
	defer late.Stop()
	reading.Wait()
}

// head keeps the first bytes that are written to it.
type head struct {
	room int
	kept []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), h.room-len(h.kept))]...)
	return len(p), nil
}

func (h *head) String() string { return string(h.kept) }
