package lifecycle

import (
	"sync"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// mailbox is what waits for an actor: requests, inputs of our own making, and
// the frames of its provider session.
type mailbox struct {
	wake chan struct{} // has room for one

	mu       sync.Mutex
	closed   *fault.Error // why nothing is taken any more
	own      []thread.Input
	watchers *thread.WatchersChanged // only the latest count matters
	requests []thread.Input
	waiting  map[thread.CallerID]chan<- thread.Reply
	frames   inbox
}

func newMailbox() *mailbox {
	return &mailbox{wake: make(chan struct{}, 1), waiting: map[thread.CallerID]chan<- thread.Reply{}}
}

func (m *mailbox) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// put adds an input of our own making: the result of an effect, a timer. Their
// number is bounded by that of effects and timers, so there is always room.
func (m *mailbox) put(in thread.Input) {
	m.mu.Lock()
	m.own = append(m.own, in)
	m.mu.Unlock()
	m.signal()
}

// putWatchers replaces the number of subscriptions that waits to be told.
func (m *mailbox) putWatchers(count int) {
	report := thread.WatchersChanged{Count: count}
	m.mu.Lock()
	if m.watchers != nil {
		report = m.watchers.Then(report)
	}
	m.watchers = &report
	m.mu.Unlock()
	m.signal()
}

// ask adds a request; the reply comes on the channel, which has room for it.
func (m *mailbox) ask(id thread.CallerID, in thread.Input, reply chan<- thread.Reply) *fault.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed != nil {
		return m.closed
	}
	if len(m.requests) >= maxRequests {
		return fault.New(fault.Overloaded, "Too many requests wait for this thread; try again in a moment.")
	}
	m.requests = append(m.requests, in)
	m.waiting[id] = reply
	m.signal()
	return nil
}

// forget drops a caller that does not wait any more.
func (m *mailbox) forget(id thread.CallerID) {
	m.mu.Lock()
	delete(m.waiting, id)
	m.mu.Unlock()
}

// reply answers a caller, once; further replies to it are dropped.
func (m *mailbox) reply(r thread.Reply) {
	m.mu.Lock()
	ch := m.waiting[r.Caller]
	delete(m.waiting, r.Caller)
	m.mu.Unlock()
	if ch != nil {
		ch <- r
	}
}

// shut answers everybody who waits, and all who come later, with err.
func (m *mailbox) shut(err *fault.Error) {
	m.mu.Lock()
	m.closed = err
	waiting := m.waiting
	m.waiting = map[thread.CallerID]chan<- thread.Reply{}
	m.mu.Unlock()
	for id, ch := range waiting {
		ch <- thread.Reply{Caller: id, Err: err}
	}
}

// batch is what an actor takes from its mailbox at once.
type batch struct {
	own      []thread.Input
	requests []thread.Input
	frames   []thread.Frame
}

// drain moves all that waits into b, whose memory goes to the mailbox.
func (m *mailbox) drain(b *batch) {
	clear(b.own)
	clear(b.requests)
	clear(b.frames)
	m.mu.Lock()
	defer m.mu.Unlock()
	b.own, m.own = m.own, b.own[:0]
	if m.watchers != nil {
		b.own = append(b.own, *m.watchers)
		m.watchers = nil
	}
	b.requests, m.requests = m.requests, b.requests[:0]
	b.frames, m.frames.queue = m.frames.queue, b.frames[:0]
	m.frames.bytes = 0
}

// quiet reports whether nothing waits and nobody waits for an answer.
func (m *mailbox) quiet() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watchers == nil && len(m.own)+len(m.requests)+len(m.frames.queue)+len(m.waiting) == 0
}

func (b *batch) empty() bool { return len(b.own)+len(b.requests)+len(b.frames) == 0 }

// dropMemory gives large buffers back once a thread is quiet.
func (b *batch) dropMemory() { *b = batch{} }
