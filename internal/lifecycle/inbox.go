package lifecycle

import (
	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// inbox holds the frames of a provider session until the actor takes them. It is
// bounded, and putting never blocks: adjacent deltas are merged, then deltas are
// dropped, those that wait too, since the complete message says all of it. A
// durable frame that finds no room then dooms its turn. Terminal frames always
// find room.
type inbox struct {
	queue      []thread.Frame
	bytes      int
	generation uint64 // frames of an older provider session are dropped
	dropped    uint64 // deltas dropped
}

func cost(f *thread.Frame) int { return frameOverhead + len(f.Text) + len(f.Call.Args) }

// put adds a frame. doomed is the turn that lost a durable frame, or 0.
func (b *inbox) put(f thread.Frame) (doomed uint64) {
	size := cost(&f)
	if len(b.queue) > 0 && b.bytes+size > maxInboxBytes/2 && b.merge(&f) {
		return 0
	}
	if len(b.queue) > 0 && b.bytes+size > maxInboxBytes {
		switch f.Kind {
		case thread.FrameActivity:
			return 0
		case thread.FrameDelta:
			b.dropped++
			return 0
		case thread.FrameMessage, thread.FrameToolCall, thread.FrameUsage:
			b.dropDeltas()
			if len(b.queue) > 0 && b.bytes+size > maxInboxBytes {
				return f.Turn
			}
		}
	}
	b.queue = append(b.queue, f)
	b.bytes += size
	return 0
}

// dropDeltas makes room by forgetting the deltas that wait.
func (b *inbox) dropDeltas() {
	kept := b.queue[:0]
	for _, f := range b.queue {
		if f.Kind == thread.FrameDelta {
			b.bytes -= cost(&f)
			b.dropped++
			continue
		}
		kept = append(kept, f)
	}
	clear(b.queue[len(kept):])
	b.queue = kept
}

// merge appends a delta to one that is already last in the queue.
func (b *inbox) merge(f *thread.Frame) bool {
	last := &b.queue[len(b.queue)-1]
	if f.Kind != thread.FrameDelta || last.Kind != thread.FrameDelta || last.Turn != f.Turn || b.bytes+len(f.Text) > maxInboxBytes {
		return false
	}
	last.Text += f.Text
	b.bytes += len(f.Text)
	return true
}

// sink is the way of one provider session into a thread's mailbox.
type sink struct {
	mail       *mailbox
	generation uint64
}

// Frame takes a frame; it never blocks.
func (s sink) Frame(f thread.Frame) {
	m := s.mail
	m.mu.Lock()
	if s.generation != m.frames.generation || m.closed != nil {
		m.mu.Unlock()
		return
	}
	doomed := m.frames.put(f)
	m.mu.Unlock()
	if doomed != 0 {
		m.put(thread.Doom{Turn: doomed, Err: fault.New(fault.Overloaded, "The agent spoke faster than it could be recorded; the turn was stopped.")})
		return
	}
	m.signal()
}

// newSink begins a new generation: frames of earlier sessions are dropped from
// now on.
func (m *mailbox) newSink() sink {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frames.generation++
	return sink{mail: m, generation: m.frames.generation}
}
