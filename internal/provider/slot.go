package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// The failpoints of this package.
const (
	PointGreeted = "provider.start.greeted" // a program runs and has answered; nobody knows yet
	PointOpened  = "provider.attach.opened" // a session is open; its thread does not know yet
)

// Points lists the failpoints of this package.
var Points = []string{PointGreeted, PointOpened}

// A slot holds the processes of one shared provider, or of one thread: the current
// one, on which sessions are opened, and older ones that finish what they have.
type slot struct {
	m      *Manager
	driver Driver
	pool   *pool // nil = one process serves all threads

	mu        sync.Mutex
	closed    bool
	current   *instance
	instances map[*instance]struct{} // all whose supervisor runs, the current one too
	starting  *starting
	backoff   backoff
	lastFault *fault.Error // the failure that the back-off answers with
}

func newSlot(m *Manager, d Driver, p *pool) *slot {
	return &slot{m: m, driver: d, pool: p, instances: map[*instance]struct{}{}}
}

// starting is a start that runs; several callers may wait for it.
type starting struct {
	ctx    context.Context // of the one caller, where a process serves one thread
	launch launch
	done   chan struct{} // closed when err is set and slot.current is, too
	err    *fault.Error
}

// attach opens a session. A runtime that dies under it is replaced once: no turn
// was sent yet.
func (s *slot) attach(ctx context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, error) {
	if err := s.awaitSettled(ctx, spec.ThreadID); err != nil {
		return thread.Attachment{}, err
	}
	a, inst, err := s.attachOnce(ctx, spec, sink)
	if inst != nil && err != nil && inst.isLost() && ctx.Err() == nil {
		a, _, err = s.attachOnce(ctx, spec, sink)
	}
	if s.pool != nil && spec.SessionID != "" && fault.Is(err, fault.ProviderSessionLost) {
		lost := fault.From(err)
		spec.SessionID, spec.Instructed = "", false
		a, _, err = s.attachOnce(ctx, spec, sink)
		a.Lost = lost
	}
	return a, err
}

func (s *slot) attachOnce(ctx context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, *instance, error) {
	inst, err := s.acquire(ctx, spec) // counts as opening until below
	if err != nil {
		return thread.Attachment{}, nil, err
	}
	for _, other := range s.list() {
		if other != inst {
			other.runtime.Detach(spec.ThreadID)
		}
	}
	a, err := inst.runtime.Attach(ctx, spec, sink)
	_ = fault.Point(PointOpened)
	s.mu.Lock()
	inst.opening--
	s.mu.Unlock()
	return a, inst, err
}

// awaitSettled waits until no process holds a quarantined session of the thread:
// the old turn was answered, or its process is gone.
func (s *slot) awaitSettled(ctx context.Context, threadID string) error {
	for _, inst := range s.list() {
		settled := inst.runtime.Settled(threadID)
		if settled == nil {
			continue
		}
		select {
		case <-settled:
		case <-inst.finished:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *slot) list() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.instances))
}

// acquire returns the instance on which a session may be opened, starting one if
// need be.
func (s *slot) acquire(ctx context.Context, spec thread.SessionSpec) (*instance, error) {
	launch, err := s.plan(ctx, spec)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err // before anything is counted as opening
		}
		if inst := s.running(spec.Permission); inst != nil {
			return inst, nil // a program that runs is good, whatever became of its file
		}
		return nil, err
	}
	for {
		inst, start, leaving, err := s.next(ctx, launch)
		switch {
		case err != nil:
			return nil, err
		case inst != nil:
			return inst, nil
		case leaving != nil:
			select {
			case <-leaving.finished:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		default:
			select {
			case <-start.done:
				if start.err != nil {
					return nil, start.err
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

// running returns the current instance if it can be used, counted as opening.
func (s *slot) running(p thread.Permission) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur := s.current
	if s.closed || s.pool != nil || cur == nil || cur.isLost() || cur.launch.permission != p || cur.runtime.Load().Quarantined > 0 {
		return nil
	}
	cur.opening++
	return cur
}

// next returns a usable instance, or what to wait for before asking again: a
// start, or an instance that is dying (its threads must hear of that before they
// get a new one).
func (s *slot) next(ctx context.Context, l launch) (ready *instance, start *starting, leaving *instance, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, nil, shuttingDown()
	}
	if cur := s.current; cur != nil {
		switch {
		case cur.isLost():
			return nil, nil, cur, nil
		case cur.launch.equal(l) && cur.runtime.Load().Quarantined == 0:
			cur.opening++
			return cur, nil, nil, nil
		case s.pool != nil: // two processes must not write into one conversation
			cur.requestStop()
			return nil, nil, cur, nil
		default: // other settings now, or a turn on it does not end
			s.current = nil
			cur.drain()
		}
	}
	if s.starting == nil {
		if wait := s.backoff.wait(time.Now(), s.m.cfg.MaxBackoff); wait > 0 {
			return nil, nil, nil, s.refusal(wait)
		}
		st := &starting{ctx: ctx, launch: l, done: make(chan struct{})}
		if !s.m.spawn(func() { s.start(st) }) {
			return nil, nil, nil, shuttingDown()
		}
		s.starting = st
	}
	return nil, s.starting, nil, nil
}

func (s *slot) refusal(wait time.Duration) *fault.Error {
	wait = wait.Truncate(time.Second) + time.Second
	e := fault.Newf(fault.ProviderRuntimeStartFailed, "%s failed repeatedly; it is tried again in %s.", s.driver.Provider.Name(), wait).
		With("retryAfterMs", wait.Milliseconds())
	if s.lastFault == nil {
		return e
	}
	for k, v := range s.lastFault.Details {
		e = e.With(k, v)
	}
	return e.With("cause", s.lastFault.Message())
}

// start runs a start to its end.
func (s *slot) start(st *starting) {
	inst, err := s.launchWithRoom(st)
	_ = fault.Point(PointGreeted)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = nil
	if err == nil {
		if _, alive := s.instances[inst]; !alive { // it died right after the greeting
			err = inst.loss
		}
	}
	switch {
	case err == nil && s.closed:
		inst.requestStop()
		err = shuttingDown()
	case err == nil:
		s.current = inst
	case s.m.ctx.Err() != nil:
	case s.pool != nil && (err.Code == fault.ProviderSessionLost || st.ctx.Err() != nil): // no fault of the program
	default:
		s.backoff.fail(time.Now())
		s.lastFault = err
	}
	st.err = err
	close(st.done)
}

// instanceGone hears from a supervisor that its instance is gone.
func (s *slot) instanceGone(inst *instance, loss *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.instances, inst)
	if s.current == inst {
		s.current = nil
	}
	if inst.wanted() || !inst.greeted() { // we stopped it, or start() counts the failure
		return
	}
	if time.Since(inst.started) >= stableAfter {
		s.backoff.reset()
		return
	}
	s.backoff.fail(time.Now())
	s.lastFault = loss
}

// release stops an idle instance, unless somebody has begun to use it meanwhile. It
// reports whether it does: from then on nobody is given it.
func (s *slot) release(inst *instance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case inst.opening > 0:
		return false
	case s.pool != nil:
		if !inst.runtime.Retire() {
			return false
		}
	case inst.runtime.Load().Sessions > 0:
		return false
	case s.current == inst:
		s.current = nil // the next one need not wait for its end
	}
	inst.requestStop()
	return true
}

func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for inst := range s.instances {
		inst.requestStop()
	}
}

func (s *slot) infos() []thread.RuntimeInfo {
	var infos []thread.RuntimeInfo
	for _, inst := range s.list() {
		infos = append(infos, inst.info())
	}
	slices.SortFunc(infos, func(a, b thread.RuntimeInfo) int { return a.StartedAt.Compare(b.StartedAt) })
	return infos
}

// launch is a command line that was decided on.
type launch struct {
	path       string
	args       []string
	env        map[string]string // from the settings
	permission thread.Permission
	searchPath string // PATH; grows while the folders to search become known
	dir        string
	own        *Launch // of a process that serves one thread; made anew for each Attach
}

// equal reports whether a process of this launch serves for the other one too.
func (l launch) equal(o launch) bool {
	return l.own == o.own && l.path == o.path && l.permission == o.permission && slices.Equal(l.args, o.args) && maps.Equal(l.env, o.env)
}

// plan finds the program and decides how it is started.
func (s *slot) plan(ctx context.Context, spec thread.SessionSpec) (launch, error) {
	findCtx, cancel := context.WithTimeout(ctx, s.m.cfg.FindTimeout)
	defer cancel()
	program, err := s.m.discovery.find(findCtx, s.driver)
	if ctx.Err() != nil {
		return launch{}, ctx.Err()
	}
	if err != nil {
		return launch{}, err
	}
	override := s.m.cfg.Override(s.driver.Provider)
	l := launch{
		path:       program.Path,
		args:       slices.Concat(program.Lead, s.driver.Args),
		env:        override.Env,
		permission: spec.Permission,
		searchPath: program.SearchPath,
	}
	if s.pool == nil {
		return l, nil
	}
	own, err := s.driver.PerThread.Launch(spec)
	if err != nil {
		return launch{}, err
	}
	l.own, l.dir, l.args = &own, own.Dir, slices.Concat(l.args, own.Args)
	return l, nil
}

func shuttingDown() *fault.Error {
	return fault.New(fault.CoreRuntimeUnavailable, "The daemon is shutting down.")
}

// startFailed says why a program did not come up.
func startFailed(d Driver, format string, args ...any) *fault.Error {
	return fault.Newf(fault.ProviderRuntimeStartFailed, d.Provider.Name()+" "+format, args...).
		With("provider", d.Provider.String()).
		With("error", fmt.Errorf(format, args...).Error())
}
