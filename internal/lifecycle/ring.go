package lifecycle

import (
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// ring is what a thread has published: its latest state and its latest events,
// encoded. State, numbers and events change under one lock, so whoever looks
// sees one moment.
type ring struct {
	mu    sync.Mutex
	view  thread.State
	lines []line // events in order; lines[head:] count
	head  int
	bytes int
	base  uint64 // every told event after base is in lines
	feeds map[*feed]struct{}

	ended     uint64        // last number of the latest end; 0 = none
	endedAt   time.Time     // when it was published
	written   chan struct{} // closed and replaced when a feed has written, while somebody waits
	observers int           // how many wait on written
}

// line is one encoded event.
type line struct {
	seq     uint64
	grouped bool // the next line belongs to the same write
	bytes   []byte
}

// lineOverhead is what a line costs in memory besides its bytes.
const lineOverhead = 40

func newRing(view thread.State) *ring {
	return &ring{view: view, base: view.LatestSeq, feeds: map[*feed]struct{}{}, written: make(chan struct{})}
}

// publish makes a state and the events that led to it visible at once.
func (r *ring) publish(view *thread.State, lines []line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if view.Status == thread.Ended && r.view.Status != thread.Ended {
		r.ended, r.endedAt = view.LatestSeq, time.Now()
	}
	r.view = *view
	if len(lines) == 0 {
		return
	}
	r.lines = append(r.lines, lines...)
	for _, l := range lines {
		r.bytes += len(l.bytes) + lineOverhead
	}
	r.shrink()
	for f := range r.feeds {
		f.signal()
	}
}

// shrink drops the oldest lines over the size, a group at a time, and reclaims
// memory when half of the slice is unused.
func (r *ring) shrink() {
	for r.bytes > maxRingBytes && r.head < len(r.lines)-1 {
		r.dropGroup()
	}
	if r.head > len(r.lines)/2 {
		n := copy(r.lines, r.lines[r.head:])
		clear(r.lines[n:])
		r.lines, r.head = r.lines[:n], 0
	}
}

func (r *ring) dropGroup() {
	for more := true; more && r.head < len(r.lines); r.head++ {
		l := &r.lines[r.head]
		more = l.grouped
		r.bytes -= len(l.bytes) + lineOverhead
		r.base = l.seq
		*l = line{}
	}
}

// tidy gives up what every feed has taken. The actor calls it when its thread
// has become quiet.
func (r *ring) tidy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.view.LatestSeq
	for f := range r.feeds {
		oldest = min(oldest, f.cursor)
	}
	for r.head < len(r.lines) && r.lines[r.head].seq <= oldest {
		r.dropGroup()
	}
	if r.head == len(r.lines) {
		r.lines, r.head, r.base = nil, 0, r.view.LatestSeq
	}
}

func (r *ring) snapshot() thread.Snapshot {
	r.mu.Lock()
	view := r.view
	r.mu.Unlock()
	return view.Snapshot()
}

func (r *ring) summary() thread.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.view
	return thread.Summary{
		ThreadID: v.ID, Provider: v.Provider, Status: v.Status, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		Owner: v.Owner, WorkspacePath: v.Workspace.Path, Usage: v.Usage,
	}
}

func (r *ring) latest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view.LatestSeq
}

// since returns the lines after a cursor, whole groups, about max bytes; ok is
// false when the ring does not reach back that far.
func (r *ring) since(cursor uint64, max int) (lines [][]byte, last uint64, ok bool) {
	if cursor < r.base {
		return nil, cursor, false
	}
	last = cursor
	size, group := 0, false
	for i := r.find(cursor); i < len(r.lines); i++ {
		l := r.lines[i]
		if size > 0 && !group && size+len(l.bytes) > max {
			break
		}
		lines = append(lines, l.bytes)
		size += len(l.bytes)
		last, group = l.seq, l.grouped
	}
	return lines, last, true
}

// find returns the index of the first line after a cursor.
func (r *ring) find(cursor uint64) int {
	lo, hi := r.head, len(r.lines)
	for lo < hi {
		mid := (lo + hi) / 2
		if r.lines[mid].seq <= cursor {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// awaitEnd returns when every feed that is open now has written the events of
// the latest end, at most until barrier has passed since that end.
func (r *ring) awaitEnd(barrier time.Duration) {
	r.mu.Lock()
	seq, at := r.ended, r.endedAt
	r.mu.Unlock()
	if seq == 0 {
		return
	}
	r.awaitWritten(seq, barrier-time.Since(at))
}

// awaitWritten returns when every open feed has written up to seq, or when the
// time is over.
func (r *ring) awaitWritten(seq uint64, wait time.Duration) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	r.mu.Lock()
	r.observers++
	for r.behind(seq) {
		written := r.written
		r.mu.Unlock()
		select {
		case <-written:
		case <-timeout.C:
			r.mu.Lock()
			r.observers--
			r.mu.Unlock()
			return
		}
		r.mu.Lock()
	}
	r.observers--
	r.mu.Unlock()
}

func (r *ring) behind(seq uint64) bool {
	for f := range r.feeds {
		if f.written < seq {
			return true
		}
	}
	return false
}

// announce wakes those who wait for feeds to have written. The lock is held.
func (r *ring) announce() {
	if r.observers == 0 {
		return
	}
	close(r.written)
	r.written = make(chan struct{})
}
