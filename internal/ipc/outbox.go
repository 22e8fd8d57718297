package ipc

import (
	"net"
	"sync"
	"time"
)

// outbox is the writing side of a connection. Lines are written whole, one
// writer at a time; an answer that waits goes before the next batch of events.
type outbox struct {
	conn    net.Conn
	timeout time.Duration // of one write
	failed  func(error)   // called once, when a write did not succeed

	mu      sync.Mutex
	turn    sync.Cond // somebody finished writing
	writing bool
	answers int   // answers that wait for their turn
	waiting int   // all that wait, answers and events
	err     error // of the write that failed; no other is tried after it

	batch []byte // events gathered for one write; owned by the pump
}

func newOutbox(conn net.Conn, timeout time.Duration, failed func(error)) *outbox {
	o := &outbox{conn: conn, timeout: timeout, failed: failed}
	o.turn.L = &o.mu
	return o
}

// answer writes one answer line, which ends with LF.
func (o *outbox) answer(line []byte) error {
	o.mu.Lock()
	o.answers++
	for o.writing {
		o.wait()
	}
	o.answers--
	o.writing = true
	err := o.err
	o.mu.Unlock()
	if err == nil {
		err = o.write(func() error {
			_, err := o.conn.Write(line)
			return err
		})
	}
	o.release(err)
	return err
}

// events writes lines in one go, unless live says, once it is their turn, that
// nobody wants them any more.
func (o *outbox) events(lines [][]byte, live func() bool) (written bool, err error) {
	o.mu.Lock()
	for o.writing || o.answers > 0 {
		o.wait()
	}
	o.writing = true
	err = o.err
	o.mu.Unlock()
	if err == nil && live() {
		written = true
		err = o.write(func() error { return o.writeLines(lines) })
	}
	o.release(err)
	return written && err == nil, err
}

// wait waits until somebody released the turn; o.mu is held.
func (o *outbox) wait() {
	o.waiting++
	o.turn.Wait()
	o.waiting--
}

// release gives the turn away. The first failure is reported, outside the lock.
func (o *outbox) release(err error) {
	o.mu.Lock()
	first := err != nil && o.err == nil
	if first {
		o.err = err
	}
	o.writing = false
	if o.waiting > 0 {
		o.turn.Broadcast()
	}
	o.mu.Unlock()
	if first {
		o.failed(err)
	}
}

func (o *outbox) write(do func() error) error {
	if err := o.conn.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil {
		return err
	}
	return do()
}

// writeLines copies small batches together, since one system call with one
// buffer is cheaper than one with hundreds; large ones are gathered by the
// kernel.
func (o *outbox) writeLines(lines [][]byte) error {
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	if size > 2*writeBatchBytes {
		buffers := net.Buffers(append([][]byte(nil), lines...)) // WriteTo consumes it
		_, err := buffers.WriteTo(o.conn)
		return err
	}
	o.batch = o.batch[:0]
	for _, line := range lines {
		o.batch = append(o.batch, line...)
	}
	_, err := o.conn.Write(o.batch)
	return err
}

// rest gives back what a quiet connection does not need. The pump calls it.
func (o *outbox) rest() {
	if cap(o.batch) > keptBuffer {
		o.batch = nil
	}
}
