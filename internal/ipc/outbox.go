package ipc

import "sync"

// sink puts lines, which end with LF, on a connection in the way of its
// transport. One write is under way at a time.
type sink interface {
	// write writes lines one after the other, with nothing of ours in between.
	write(lines [][]byte) error
	// rest gives back what a quiet connection does not need.
	rest()
}

// outbox is the writing side of a connection. Lines are written whole, one
// writer at a time; an answer that waits goes before the next batch of events.
type outbox struct {
	sink   sink
	failed func(error) // called once, when a write did not succeed

	mu      sync.Mutex
	turn    sync.Cond // somebody finished writing
	writing bool
	answers int   // answers that wait for their turn
	waiting int   // all that wait, answers and events
	err     error // of the write that failed; no other is tried after it

	one [1][]byte // the answer that is being written
}

func newOutbox(to sink, failed func(error)) *outbox {
	o := &outbox{sink: to, failed: failed}
	o.turn.L = &o.mu
	return o
}

// answer writes one answer line. turn is called when it is its turn, before it
// is written; nil = nobody asks.
func (o *outbox) answer(line []byte, turn func()) error {
	o.mu.Lock()
	o.answers++
	for o.writing {
		o.wait()
	}
	o.answers--
	o.writing = true
	err := o.err
	o.mu.Unlock()
	if turn != nil {
		turn()
	}
	if err == nil {
		o.one[0] = line
		err = o.sink.write(o.one[:])
		o.one[0] = nil
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
		err = o.sink.write(lines)
	}
	o.release(err)
	return written && err == nil, err
}

// shut makes later writes fail with err at once: nobody is there to read them.
func (o *outbox) shut(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
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
