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
	of traffic

	mu      sync.Mutex
	written bool // or being written
	lines   int  // or messages, received before the answer was written
	tooSoon bool // the client had closed its side before: that says nothing
}

// traffic is what a receipt sees of a connection.
type traffic interface {
	// progress returns how many lines or messages were received, and whether the
	// client has closed its side cleanly.
	progress() (received int, hungUp bool)
	// pending reports whether something of that kind has come that was not
	// received yet, as far as the system tells.
	pending() bool
}

// receipt begins to watch the answer that is written next.
func (c *conn) receipt() *receipt { return &receipt{of: c} }

// begin is called before the answer is written, since the client may show that
// it has it before the write returns here. A nil receipt watches nothing.
func (r *receipt) begin() {
	if r == nil {
		return
	}
	lines, hungUp := r.of.progress()
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
	received, hungUp := r.of.progress()
	return received > lines || hungUp || r.of.pending()
}

func (c *conn) progress() (lines int, hungUp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines, c.hungUp
}

// gone: over TCP a client that has closed its side may still read.
func (c *conn) gone() <-chan struct{} { return c.ctx.Done() }

func (c *conn) noteHangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hungUp = true
}

func (c *conn) pending() bool { return c.peek() != peekedNothing }

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
