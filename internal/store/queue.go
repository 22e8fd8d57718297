package store

import (
	"sync"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Limits of the queue before the committer. A thread has one change in flight
// at a time, so these are met only when the disk stands still.
const (
	MaxQueuedChanges = 4096
	MaxQueuedBytes   = 64 << 20
)

// queue holds changes for the committer. When it is full, push answers
// OVERLOADED at once.
type queue struct {
	wake chan struct{} // has room for one

	mu     sync.Mutex
	items  []*item
	spare  []*item // the slice that take returned last but one
	bytes  int
	closed bool
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) push(it *item) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed()
	}
	full := len(q.items) >= MaxQueuedChanges || (q.bytes+it.size > MaxQueuedBytes && len(q.items) > 0)
	if full {
		return &fault.Error{Code: fault.Overloaded, Op: "store.commit", Msg: "Too many changes wait for the disk; try again in a moment."}
	}
	q.items = append(q.items, it)
	q.bytes += it.size
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// take returns all that waits. The slice is the committer's until the next
// call.
func (q *queue) take() []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.items
	clear(q.spare[:cap(q.spare)])
	q.items, q.spare = q.spare[:0], batch
	q.bytes = 0
	return batch
}

// close makes push refuse; what waits stays for take.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// drained reports whether the queue is closed and empty.
func (q *queue) drained() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed && len(q.items) == 0
}

func errClosed() error {
	return &fault.Error{Code: fault.StorageFailed, Op: "store", Msg: "The database is closed."}
}
