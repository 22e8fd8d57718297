package scripted

import (
	"context"
	"io"
	"sync"
	"time"
)

// maxBuffered is how much output waits before those who speak wait too.
const maxBuffered = 256 << 10

// output writes frames to a stream. While one write is under way the next
// frames gather, so a fast speaker costs few system calls and a slow one no
// delay.
type output struct {
	w    io.Writer
	done chan struct{} // the writing goroutine is gone

	mu      sync.Mutex
	moved   *sync.Cond // anything below changed
	buf     []byte
	spare   []byte
	writing bool
	closed  bool
	err     error
}

func newOutput(w io.Writer, onError func()) *output {
	o := &output{w: w, done: make(chan struct{})}
	o.moved = sync.NewCond(&o.mu)
	go o.loop(onError)
	return o
}

func (o *output) loop(onError func()) {
	defer close(o.done)
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.buf) == 0 && !o.closed {
			o.moved.Wait()
		}
		if len(o.buf) == 0 {
			return
		}
		batch := o.buf
		o.buf, o.spare = o.spare[:0], nil
		o.writing = true
		o.mu.Unlock()
		_, err := o.w.Write(batch)
		o.mu.Lock()
		o.writing, o.spare = false, batch
		o.moved.Broadcast()
		if err != nil {
			o.err, o.buf = err, nil
			onError()
			return
		}
	}
}

// send queues bytes that end with a newline. It waits while too much is queued,
// but no longer than ctx.
func (o *output) send(ctx context.Context, line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf) > maxBuffered {
		wake := context.AfterFunc(ctx, o.wake)
		defer wake()
		for len(o.buf) > maxBuffered && o.err == nil && ctx.Err() == nil {
			o.moved.Wait()
		}
	}
	if o.err != nil {
		return
	}
	o.buf = append(o.buf, line...)
	o.moved.Broadcast()
}

// flush waits until everything queued so far was written, but no longer than
// ctx.
func (o *output) flush(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	wake := context.AfterFunc(ctx, o.wake)
	defer wake()
	for (len(o.buf) > 0 || o.writing) && o.err == nil && ctx.Err() == nil {
		o.moved.Wait()
	}
}

func (o *output) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.moved.Broadcast()
}

// close writes what is queued and ends the writer. It gives up on a reader that
// takes longer than limit.
func (o *output) close(limit time.Duration) {
	o.mu.Lock()
	o.closed = true
	o.moved.Broadcast()
	o.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
	}
}
