package lifecycle

import (
	"sync"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// feed is one subscription: a cursor into the ring, or into the journal when it
// has fallen behind. It implements [thread.Feed].
type feed struct {
	a        *actor
	wake     chan<- struct{}
	snapshot thread.Snapshot
	replay   *thread.Replay
	close    func() // once: leaves the ring and the actor

	// Under the ring's lock.
	cursor  uint64
	written uint64
}

// subscribe cuts the thread's history: what is published after the snapshot goes
// to the feed. With a cursor, so does what lies between the two. The caller's
// reference to the actor becomes the feed's.
func (a *actor) subscribe(afterSeq *uint64, wake chan<- struct{}) (*feed, error) {
	f := &feed{a: a, wake: wake}
	f.close = sync.OnceFunc(f.leave)
	r := a.ring
	r.mu.Lock()
	view := r.view
	f.cursor, f.written = view.LatestSeq, view.LatestSeq
	if afterSeq != nil {
		f.cursor = min(*afterSeq, view.LatestSeq)
	}
	inRing := f.cursor >= r.base
	r.feeds[f] = struct{}{}
	a.watchers(len(r.feeds))
	r.mu.Unlock()

	f.snapshot = view.Snapshot()
	if afterSeq == nil {
		return f, nil
	}
	f.replay = &thread.Replay{FromSeq: max(*afterSeq, *afterSeq+1), ToSeq: view.LatestSeq}
	if !inRing {
		if err := f.openJournal(); err != nil {
			f.Close()
			return nil, err
		}
	}
	f.signal()
	return f, nil
}

// openJournal finds out how far back the journal reaches and moves the cursor
// there.
func (f *feed) openJournal() error {
	page, err := f.a.svc.cfg.Store.Events(f.a.id, f.cursor, f.snapshot.LatestSeq, eventsPage, eventsBytes)
	if err != nil {
		return err
	}
	// Numbers without an event in the journal were those of deltas.
	f.replay.DeltasOmitted = page.More || uint64(len(page.Events)) < f.snapshot.LatestSeq-max(f.cursor, page.TrimmedThrough)
	if page.TrimmedThrough > f.cursor {
		f.replay.Truncated = true
		f.a.ring.mu.Lock()
		f.cursor = page.TrimmedThrough
		f.a.ring.mu.Unlock()
	}
	return nil
}

// Snapshot returns the state at the cut.
func (f *feed) Snapshot() thread.Snapshot { return f.snapshot }

// Replay describes what is sent before live events, or is nil.
func (f *feed) Replay() *thread.Replay { return f.replay }

// Take returns lines that are ready; see [thread.Feed].
func (f *feed) Take(max int) ([][]byte, uint64, error) {
	r := f.a.ring
	r.mu.Lock()
	if _, open := r.feeds[f]; !open {
		r.mu.Unlock()
		return nil, f.cursor, nil
	}
	lines, last, ok := r.since(f.cursor, max)
	if ok {
		f.cursor = last
		r.mu.Unlock()
		return lines, last, nil
	}
	cursor, through := f.cursor, r.view.LatestSeq
	r.mu.Unlock()
	return f.takeJournal(cursor, through, max)
}

func (f *feed) takeJournal(cursor, through uint64, max int) ([][]byte, uint64, error) {
	page, err := f.a.svc.cfg.Store.Events(f.a.id, cursor, through, eventsPage, min(max, eventsBytes))
	if err != nil {
		return nil, cursor, err
	}
	if page.TrimmedThrough > cursor {
		return nil, cursor, thread.ErrTrimmed
	}
	lines := make([][]byte, len(page.Events))
	last := cursor
	for i := range page.Events {
		lines[i] = f.a.svc.cfg.Encode(nil, f.a.id, &page.Events[i])
		last = page.Events[i].Seq
	}
	if !page.More {
		last = through
	}
	f.a.ring.mu.Lock()
	f.cursor = last
	f.a.ring.mu.Unlock()
	f.signal()
	return lines, last, nil
}

// Written says that lines up to seq were handed to the operating system.
func (f *feed) Written(seq uint64) {
	f.a.ring.mu.Lock()
	defer f.a.ring.mu.Unlock()
	f.written = max(f.written, seq)
	f.a.ring.announce()
}

// Close ends the subscription.
func (f *feed) Close() { f.close() }

func (f *feed) leave() {
	r := f.a.ring
	r.mu.Lock()
	delete(r.feeds, f)
	f.a.watchers(len(r.feeds))
	r.announce()
	r.mu.Unlock()
	f.a.svc.registry.release(f.a)
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
