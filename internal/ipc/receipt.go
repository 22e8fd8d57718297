package ipc

import (
	"sync"
	"syscall"
)

// receipt tells whether the answer to a tool call has arrived. It has when,
// after it was written, the client went on to use the connection or closed it
// cleanly; a client that was killed before it read leaves a reset instead. It
// implements thread.Delivery.
type receipt struct {
	c *conn

	mu      sync.Mutex
	written bool // or being written
	lines   int  // received before the answer was written
	tooSoon bool // the client had closed its side before: that says nothing
}

// receipt begins to watch the answer that is written next.
func (c *conn) receipt() *receipt { return &receipt{c: c} }

// begin is called before the answer is written, since the client may show that
// it has it before the write returns here. A nil receipt watches nothing.
func (r *receipt) begin() {
	if r == nil {
		return
	}
	lines, hungUp := r.c.progress()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written, r.lines, r.tooSoon = true, lines, hungUp
}

// end is called when the write has returned.
func (r *receipt) end(err error) {
	if r == nil || err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = false
}

// Delivered reports whether the client has read the answer, as far as the
// connection shows now.
func (r *receipt) Delivered() bool {
	r.mu.Lock()
	written, lines, tooSoon := r.written, r.lines, r.tooSoon
	r.mu.Unlock()
	if !written || tooSoon {
		return false
	}
	received, hungUp := r.c.progress()
	return received > lines || hungUp || r.c.peek() != peekedNothing
}

// progress returns how many lines were received, and whether the client has
// closed its side cleanly.
func (c *conn) progress() (lines int, hungUp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines, c.hungUp
}

func (c *conn) noteHangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hungUp = true
}

// peeked is what lies in the kernel for a connection's reader, which may not
// have run yet.
type peeked uint8

const (
	peekedNothing peeked = iota // no news, a reset, or a system that cannot tell
	peekedMore                  // bytes
	peekedEnd                   // the end of the stream
)

// peek looks at the socket without taking anything from it.
func (c *conn) peek() peeked {
	sc, ok := c.nc.(syscall.Conn)
	if !ok {
		return peekedNothing
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return peekedNothing
	}
	result := peekedNothing
	if err := raw.Control(func(fd uintptr) { result = peekSocket(fd) }); err != nil {
		return peekedNothing
	}
	return result
}
