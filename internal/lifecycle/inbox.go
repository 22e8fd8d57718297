package lifecycle

import (
	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// inbox holds the frames of a provider session until the actor takes them. It is
// bounded, and putting never blocks: adjacent deltas are merged, then deltas are
// dropped, those that wait too, since the complete message says all of it. Only
// when frames that must not be lost find no room is their turn doomed. Terminal
// frames always find room.
type inbox struct {
	queue      []thread.Frame
	bytes      int
	generation uint64 // frames of an older provider session are dropped
	dropped    uint64 // deltas dropped
	doomed     uint64 // turn that lost a durable frame last
}

func cost(f *thread.Frame) int { return frameOverhead + len(f.Text) + len(f.Call.Args) }

// put adds a frame. doomed is the turn that lost a durable frame just now, for
// the first time, or 0.
func (b *inbox) put(f thread.Frame) (doomed uint64) {
	size := cost(&f)
	soft := f.Kind == thread.FrameDelta || f.Kind == thread.FrameActivity
	switch {
	case f.Kind == thread.FrameDelta && b.merge(&f):
		return 0
	case len(b.queue) == 0, b.bytes+size <= maxInboxBytes:
	case f.Kind == thread.FrameDelta:
		b.dropped++
		return 0
	case soft:
		return 0
	default:
		b.dropDeltas()
		if b.bytes+size > maxFrameBytes && len(b.queue) > 0 && !terminal(f.Kind) {
			return b.doom(f.Turn)
		}
	}
	b.queue = append(b.queue, f)
	b.bytes += size
	return 0
}

func terminal(k thread.FrameKind) bool { return k == thread.FrameFinished || k == thread.FrameGone }

// doom returns the turn, or 0 if that was said before.
func (b *inbox) doom(turn uint64) uint64 {
	if b.doomed == turn {
		return 0
	}
	b.doomed = turn
	return turn
}

// merge appends a delta to one that is already last in the queue. Small ones are
// always put together, so that a provider that is faster than its subscribers
// costs few events; larger ones only when the inbox is half full.
func (b *inbox) merge(f *thread.Frame) bool {
	if len(b.queue) == 0 {
		return false
	}
	last := &b.queue[len(b.queue)-1]
	if last.Kind != thread.FrameDelta || last.Turn != f.Turn || b.bytes+len(f.Text) > maxInboxBytes {
		return false
	}
	if len(last.Text) >= mergeBytes && b.bytes+cost(f) <= maxInboxBytes/2 {
		return false
	}
	last.Text += f.Text
	b.bytes += len(f.Text)
	return true
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
// now on, those that wait too.
func (m *mailbox) newSink() sink {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frames.generation++
	clear(m.frames.queue)
	m.frames.queue, m.frames.bytes = m.frames.queue[:0], 0
	return sink{mail: m, generation: m.frames.generation}
}
