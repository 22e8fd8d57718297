package assets

import (
	"context"
	"maps"
	"slices"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// desk is what is open here of one thread. It exists while there is anything to
// keep, and is guarded by Manager.mu.
type desk struct {
	shut      bool // the thread's end has begun
	over      bool // ... and is durable, so that the thread itself says so
	visitors  int  // requests that have asked Threads and not yet been answered
	uploading bool // an upload runs, or its temporary name is not forgotten yet

	tickets   [directions][]*ticket // unused ones, oldest first
	transfers map[*transfer]struct{}
}

func (d *desk) running() []*transfer { return slices.Collect(maps.Keys(d.transfers)) }

// desk returns the desk of a thread, made if need be. Whoever asks for it calls
// tidy before it lets go of the lock for good.
func (m *Manager) desk(threadID string) *desk {
	d := m.desks[threadID]
	if d == nil {
		d = &desk{transfers: map[*transfer]struct{}{}}
		m.desks[threadID] = d
	}
	return d
}

// tidy drops a desk on which nothing lies. One that is shut stays until the end
// is durable; what was asked before that still meets it.
func (m *Manager) tidy(threadID string, d *desk) {
	idle := d.visitors == 0 && !d.uploading && len(d.transfers) == 0 && len(d.tickets[upload]) == 0 && len(d.tickets[download]) == 0
	if idle && (!d.shut || d.over) && m.desks[threadID] == d {
		delete(m.desks, threadID)
	}
}

// visit is one request about the assets of a thread.
type visit struct {
	m        *Manager
	threadID string
	desk     *desk
	Info
}

// visit authorises a request. Its desk is held from before the thread is asked,
// so that an Abort in between is seen.
func (m *Manager) visit(ctx context.Context, c thread.Caller, threadID string) (*visit, error) {
	m.mu.Lock()
	d := m.desk(threadID)
	d.visitors++
	m.mu.Unlock()
	v := &visit{m: m, threadID: threadID, desk: d}
	info, err := m.cfg.Threads.Thread(ctx, c, threadID)
	if err != nil {
		v.leave()
		return nil, err
	}
	v.Info = info
	return v, nil
}

func (v *visit) leave() {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	v.desk.visitors--
	v.m.tidy(v.threadID, v.desk)
}

// open refuses threads that have ended or are about to, and all during a
// shutdown. The lock is held.
func (v *visit) open() error {
	if v.m.closed {
		return fault.New(fault.CoreRuntimeUnavailable, "The daemon is shutting down.")
	}
	if v.desk.shut || v.Status == thread.Stopping || v.Status == thread.Ended {
		return fault.New(fault.ThreadEnded, "The thread has ended; resume it to use its assets.").With("threadId", v.threadID)
	}
	return nil
}

// openNow is open for those who do not hold the lock.
func (v *visit) openNow() error {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	return v.open()
}
