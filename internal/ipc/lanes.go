package ipc

import (
	"context"
	"sync"
)

// lanes start requests that name the same thread in the order in which they
// came. A request has begun when its thread says so, or at the latest when it
// was answered; the next one does not wait for its end.
type lanes struct {
	mu   sync.Mutex
	last map[string]*place // by thread; those that are not answered yet
}

// place is one request's place in a lane.
type place struct {
	lanes  *lanes
	thread string
	before <-chan struct{} // closed when the request before has begun; nil = there is none
	begun  chan struct{}
	once   sync.Once
}

// enter takes the next place for a request to a thread.
func (l *lanes) enter(threadID string) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{lanes: l, thread: threadID, begun: make(chan struct{})}
	if ahead := l.last[threadID]; ahead != nil {
		p.before = ahead.begun
	}
	if l.last == nil {
		l.last = map[string]*place{}
	}
	l.last[threadID] = p
	return p
}

// wait returns when the request may begin, or ctx's error.
func (p *place) wait(ctx context.Context) error {
	if p.before == nil {
		return nil
	}
	select {
	case <-p.before:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin lets the next request begin. It may be called several times.
func (p *place) begin() { p.once.Do(func() { close(p.begun) }) }

// leave gives the place up.
func (p *place) leave() {
	p.begin()
	p.lanes.mu.Lock()
	defer p.lanes.mu.Unlock()
	if p.lanes.last[p.thread] == p {
		delete(p.lanes.last, p.thread)
	}
}
