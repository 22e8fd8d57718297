package provider

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// A pool runs a process of its own for each thread of one provider. Each thread
// has a slot, so that one whose process fails again and again waits alone.
type pool struct {
	m      *Manager
	driver Driver

	mu     sync.Mutex
	closed bool
	slots  map[string]*slot // by thread id
	users  map[*slot]int    // attaches that run
	alive  int              // processes that run or are being started
	moved  chan struct{}    // closed and replaced when a process went or may have become idle
}

func newPool(m *Manager, d Driver) *pool {
	return &pool{m: m, driver: d, slots: map[string]*slot{}, users: map[*slot]int{}, moved: make(chan struct{})}
}

func (p *pool) attach(ctx context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, error) {
	s, done := p.slot(spec.ThreadID)
	defer done()
	return s.attach(ctx, spec, sink)
}

// slot returns a thread's slot, and forgets those that hold nothing.
func (p *pool) slot(threadID string) (s *slot, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, other := range p.slots {
		if id != threadID && p.users[other] == 0 && other.holdsNothing() {
			delete(p.slots, id)
		}
	}
	s = p.slots[threadID]
	if s == nil {
		s = newSlot(p.m, p.driver, p)
		s.closed = p.closed
		p.slots[threadID] = s
	}
	p.users[s]++
	return s, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.users[s]--; p.users[s] == 0 {
			delete(p.users, s)
		}
	}
}

// holdsNothing reports whether a slot can be made anew when it is needed.
func (s *slot) holdsNothing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.instances) == 0 && s.starting == nil && s.backoff.recent(time.Now()) == 0
}

// enter waits until another process may run: there are fewer than MaxAlive, or the
// one that was idle for longest has made room.
func (p *pool) enter(ctx context.Context) error {
	for waited := false; ; waited = true {
		p.mu.Lock()
		if p.alive < p.driver.PerThread.MaxAlive {
			p.alive++
			p.mu.Unlock()
			return nil
		}
		moved := p.moved
		p.mu.Unlock()
		if !p.evict() && !waited {
			p.m.cfg.Log.Info().Str("provider", p.driver.Provider.String()).Int("processes", p.driver.PerThread.MaxAlive).
				Msg("every process has a turn; a thread waits for one to end")
		}
		again := time.NewTimer(reservationCheck) // a turn that was about to begin may never come
		select {
		case <-moved:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		case <-p.m.ctx.Done():
			again.Stop()
			return shuttingDown()
		}
		again.Stop()
	}
}

// evict stops the process that was idle for longest. It reports whether there is
// one, or one that is stopping already.
func (p *pool) evict() bool {
	instances := p.list()
	slices.SortFunc(instances, func(a, b *instance) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, inst := range instances {
		if inst.wanted() {
			return true
		}
	}
	for _, inst := range instances {
		if inst.greeted() && inst.runtime.Load().Sessions > 0 && inst.runtime.Retire() {
			inst.requestStop()
			return true
		}
	}
	return false
}

// leave gives a process's room back.
func (p *pool) leave() {
	p.mu.Lock()
	p.alive--
	p.mu.Unlock()
	p.stir()
}

// stir wakes who waits for room.
func (p *pool) stir() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.moved)
	p.moved = make(chan struct{})
}

// list returns the processes that run.
func (p *pool) list() []*instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*instance
	for _, s := range p.slots {
		all = append(all, s.list()...)
	}
	return all
}

func (p *pool) infos() []thread.RuntimeInfo {
	var infos []thread.RuntimeInfo
	for _, inst := range p.list() {
		infos = append(infos, inst.info())
	}
	slices.SortFunc(infos, func(a, b thread.RuntimeInfo) int { return a.StartedAt.Compare(b.StartedAt) })
	return infos
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.slots {
		s.close()
	}
}

// launchWithRoom starts a program once there is room for it.
func (s *slot) launchWithRoom(st *starting) (*instance, *fault.Error) {
	if s.pool != nil {
		if err := s.pool.enter(st.ctx); err != nil {
			return nil, fault.From(err)
		}
	}
	inst, err := s.launchInstance(st.launch)
	if err == nil && s.pool != nil && st.ctx.Err() != nil { // nobody waits for it any more
		inst.requestStop()
		return nil, fault.From(st.ctx.Err())
	}
	return inst, err
}

// left gives back the room of a process that is gone or never came up.
func (s *slot) left() {
	if s.pool != nil {
		s.pool.leave()
	}
}

// idleStop is how long a process may be of no use.
func (s *slot) idleStop() time.Duration {
	if s.pool != nil {
		return s.driver.PerThread.IdleStop
	}
	return s.m.cfg.IdleStop
}
