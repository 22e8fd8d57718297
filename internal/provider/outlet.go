package provider

import (
	"sync"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// Outlet is a sink that can be shut: once Shut returned, no frame reaches it. The
// lock is held while the sink takes a frame, which never blocks.
type Outlet struct {
	mu   sync.Mutex
	sink thread.Sink // nil = shut
}

// NewOutlet returns an open outlet.
func NewOutlet(sink thread.Sink) *Outlet { return &Outlet{sink: sink} }

// Frame passes a frame on, unless the outlet is shut.
func (o *Outlet) Frame(f thread.Frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sink != nil {
		o.sink.Frame(f)
	}
}

// Shut drops every later frame.
func (o *Outlet) Shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sink = nil
}
