package acp

import (
	"sync"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// outlet is a sink that can be shut: once shut returned, no frame reaches it. The
// lock is held while the sink takes a frame, which never blocks.
type outlet struct {
	mu   sync.Mutex
	sink thread.Sink // nil = shut
}

func (o *outlet) frame(f thread.Frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sink != nil {
		o.sink.Frame(f)
	}
}

func (o *outlet) shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sink = nil
}
