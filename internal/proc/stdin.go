package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// writeQueue is how many frames may wait for a runtime to read its input.
const writeQueue = 256

var errInputClosed = fault.New(fault.ProviderRuntimeDisconnected, "The agent's input is closed.").Unsent()

// An outgoing frame and where its writer is told; told has room for one answer.
type outgoing struct {
	line []byte // with its line feed
	told chan error
}

// input feeds a runtime's stdin from a goroutine of its own, so that a runtime
// which does not read blocks nobody.
type input struct {
	pipe    *os.File
	timeout time.Duration
	failed  func(error) // called when a frame could not be written

	queue chan outgoing
	done  chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	closed bool
	ending chan struct{} // closed by close: write what is queued, then end
}

func newInput(pipe *os.File, timeout time.Duration, failed func(error)) *input {
	return &input{
		pipe:    pipe,
		timeout: timeout,
		failed:  failed,
		queue:   make(chan outgoing, writeQueue),
		done:    make(chan struct{}),
		ending:  make(chan struct{}),
	}
}

// post queues a frame. It never waits.
func (in *input) post(line []byte) (told <-chan error, err error) {
	if bytes.IndexByte(line, '\n') >= 0 {
		return nil, fault.New(fault.Internal, "A frame for an agent must be one line.")
	}
	frame := outgoing{line: make([]byte, 0, len(line)+1), told: make(chan error, 1)}
	frame.line = append(append(frame.line, line...), '\n')
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil, errInputClosed
	}
	select {
	case in.queue <- frame:
		return frame.told, nil
	default:
		return nil, fault.Newf(fault.Overloaded, "The agent does not read: %d messages wait for it.", writeQueue)
	}
}

// write queues a frame and waits until the pipe has taken it.
func (in *input) write(ctx context.Context, line []byte) error {
	told, err := in.post(line)
	if err != nil {
		return err
	}
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return fmt.Errorf("write to the agent: %w", context.Cause(ctx))
	}
}

// close ends the input after what is queued. It does not wait for that.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.closed = true
		close(in.ending)
	}
}

// abort makes a write that is stuck return: nobody is left who ought to read.
func (in *input) abort() {
	in.close()
	_ = in.pipe.Close()
}

// run writes until close and answers every queued frame, whatever happens.
func (in *input) run() {
	defer close(in.done)
	defer in.pipe.Close()
	var broken *fault.Error
	for {
		select {
		case frame := <-in.queue:
			broken = in.take(frame, broken)
		case <-in.ending: // post refuses from here on
			for {
				select {
				case frame := <-in.queue:
					broken = in.take(frame, broken)
				default:
					return
				}
			}
		}
	}
}

// take writes one frame and tells its sender. After a failed write, which may
// have left half a frame in the pipe, nothing is written any more. A frame that
// lacks more than its line feed is none to its reader: it counts as unsent.
func (in *input) take(frame outgoing, broken *fault.Error) *fault.Error {
	if broken != nil {
		frame.told <- broken.Unsent()
		return broken
	}
	n, err := in.writeAll(frame.line)
	if err == nil {
		frame.told <- nil
		return nil
	}
	broken = fault.Wrap(fault.ProviderRuntimeDisconnected, "proc.write", err, "The agent does not take its input.")
	if n < len(frame.line)-1 {
		frame.told <- broken.Unsent()
	} else {
		frame.told <- broken
	}
	in.close()
	in.failed(broken)
	return broken
}

func (in *input) writeAll(line []byte) (n int, err error) {
	if err := fault.Point("proc.write.before"); err != nil {
		return 0, err
	}
	err = in.pipe.SetWriteDeadline(time.Now().Add(in.timeout))
	if errors.Is(err, os.ErrNoDeadline) { // pipes on Windows: give the runtime up, which breaks its pipe
		late := time.AfterFunc(in.timeout, func() { in.failed(os.ErrDeadlineExceeded) })
		defer late.Stop()
	}
	return in.pipe.Write(line)
}
