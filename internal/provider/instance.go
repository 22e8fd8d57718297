package provider

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/proc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// stderrTail is how much of a dead program's stderr goes into error details.
const stderrTail = 4 << 10

// reservationCheck is how often a runtime that shall go is looked at while turns
// are about to begin on it: such a turn may never come.
const reservationCheck = 500 * time.Millisecond

// RuntimeFileEnv tells an agent's tools where the daemon is.
const RuntimeFileEnv = "PEDELEC_CORE_IPC_RUNTIME_FILE"

// ProviderEnv tells an agent's tools for which provider they run.
const ProviderEnv = "PEDELEC_PROVIDER"

// instance is one process with its protocol side and its supervisor.
type instance struct {
	slot     *slot
	launch   launch
	process  *proc.Process
	runtime  Runtime
	started  time.Time
	wake     chan struct{} // the load changed
	stop     chan struct{} // somebody wants the end
	finished chan struct{} // closed when the process is gone and its threads know

	opening  int // sessions that are being opened; guarded by slot.mu
	draining atomic.Bool
	stopping atomic.Bool  // stop is closed
	ready    atomic.Bool  // the handshake is done
	used     atomic.Int64 // when its load changed last, in nanoseconds since epoch
	loss     *fault.Error
}

// launchInstance starts a program and greets it. On an error nothing of it is
// left.
func (s *slot) launchInstance(l launch) (*instance, *fault.Error) {
	supervised := false
	defer func() {
		if !supervised {
			s.left()
		}
	}()
	ctx, cancel := context.WithTimeout(s.m.ctx, s.driver.HandshakeTimeout)
	defer cancel()
	inst := &instance{
		slot:     s,
		launch:   l,
		wake:     make(chan struct{}, 1),
		stop:     make(chan struct{}),
		finished: make(chan struct{}),
	}
	env, err := s.environment(l)
	if err != nil {
		return nil, startFailed(s.driver, "cannot be configured: %w.", err)
	}
	var process atomic.Pointer[proc.Process] // the runtime writes only after the start
	inst.runtime = s.driver.New(Link{
		Write:    func(ctx context.Context, line []byte) error { return process.Load().Write(ctx, line) },
		Post:     func(line []byte) error { return process.Load().Post(line) },
		Changed:  inst.changed,
		Log:      s.m.cfg.Log.With().Str("provider", s.driver.Provider.String()).Logger(),
		Redactor: s.m.cfg.Redactor,
		BinDir:   s.m.cfg.binDir(),
		Lookup:   func(name string) string { return s.lookup(l, name) },
		Launch:   l.own,
	})
	p, err := s.m.cfg.Starter.Start(ctx, proc.Spec{
		Provider: s.driver.Provider.String(),
		Path:     l.path,
		Args:     l.args,
		Dir:      l.dir,
		Env:      env,
		Inherit:  s.driver.Inherit,
		OnFrame: func(p *proc.Process, frame []byte) {
			process.CompareAndSwap(nil, p) // a frame may be quicker than Start's return
			inst.runtime.Feed(frame)
		},
		OnStray: func(_ *proc.Process, stray proc.Stray) {
			if stray.Kind == proc.Oversize {
				inst.runtime.Skipped(stray.Head, stray.Tail)
			}
		},
	})
	if err != nil {
		return nil, fault.From(err).With("provider", s.driver.Provider.String())
	}
	process.Store(p)
	inst.process, inst.started = p, p.StartedAt
	s.mu.Lock()
	s.instances[inst] = struct{}{}
	s.mu.Unlock()
	supervised = true
	s.m.tasks.Go(inst.supervise) // from within a task, so Close still waits
	if err := inst.runtime.Handshake(ctx); err != nil {
		inst.requestStop()
		<-inst.finished
		return nil, inst.handshakeFailed(err)
	}
	inst.ready.Store(true)
	inst.changed() // from now on it may be idle
	return inst, nil
}

// handshakeFailed adds what the dead process said to the failure.
func (i *instance) handshakeFailed(err error) *fault.Error {
	if i.slot.m.ctx.Err() != nil {
		return shuttingDown()
	}
	e := fault.From(err)
	if tail := i.stderr(); tail != "" {
		e = e.With("stderr", tail)
	}
	if exit := i.process.Exit(); !exit.Stopped {
		e = e.With("exitStatus", exit.Text)
	}
	return e
}

// environment returns the variables that the program gets over the inherited
// ones.
func (s *slot) environment(l launch) ([]string, error) {
	set := map[string]string{}
	if s.driver.Env != nil {
		own, err := s.driver.Env(l.permission, func(name string) string {
			return s.lookup(l, name)
		})
		if err != nil {
			return nil, err
		}
		for _, name := range s.driver.Secrets {
			s.m.cfg.Redactor.Add(own[name])
		}
		set = own
	}
	for name, value := range l.env {
		if _, taken := set[name]; !taken { // the driver has merged the user's value in
			set[name] = value
		}
	}
	if _, own := set["PATH"]; !own {
		set["PATH"] = l.searchPath
	}
	set[ProviderEnv] = s.driver.Provider.String()
	if s.m.cfg.HomeDir != "" {
		set[RuntimeFileEnv] = s.m.cfg.runtimeFile()
	}
	env := make([]string, 0, len(set))
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env, nil
}

// lookup reads what the program's environment is before the driver adds to it.
func (s *slot) lookup(l launch, name string) string {
	if v, ok := l.env[name]; ok {
		return v
	}
	return lookup(s.m.cfg.Environ, name)
}

// supervise watches over a process until it is gone and its threads know.
func (i *instance) supervise() {
	defer close(i.finished)
	defer i.slot.left()
	idleStop := i.slot.idleStop()
	idle := time.NewTimer(idleStop)
	defer idle.Stop()
	idle.Stop() // until the greeting is done
	again := time.NewTimer(reservationCheck)
	defer again.Stop()
	again.Stop()
	for {
		select {
		case <-i.process.Done():
			i.gone()
			return
		case <-i.stop:
			i.end()
		case <-i.runtime.Broken():
			i.end()
		case <-i.wake:
			load := i.runtime.Load()
			if load.Quarantined > 0 || i.draining.Load() {
				if i.runtime.Retire() { // its last turn is over
					i.requestStop()
				} else if load.Reserved > 0 {
					again.Reset(reservationCheck)
				}
			}
			if load.Spent {
				i.requestStop()
			}
			idle.Stop()
			if i.greeted() && (load.Sessions == 0 || i.slot.pool != nil && load.Turns == 0) {
				idle.Reset(idleStop)
			}
		case <-again.C:
			i.changed()
		case <-idle.C:
			if !i.slot.release(i) {
				idle.Reset(idleStop)
			}
		}
	}
}

// end goes down the stop ladder.
func (i *instance) end() {
	i.process.Stop(i.runtime.Farewell)
}

// gone tells the threads, then the slot.
func (i *instance) gone() {
	i.loss = i.lossError()
	if i.isBroken() && !i.wanted() {
		i.slot.m.cfg.Log.Warn().Str("provider", i.slot.driver.Provider.String()).Int("pid", i.process.PID).
			Msg("the agent did not answer any more and was stopped: the turns it ran fail, and the next turn starts it again")
	}
	i.runtime.Gone(i.loss)
	i.slot.instanceGone(i, i.loss)
}

// lossError describes the end of the process to the threads that it served.
func (i *instance) lossError() *fault.Error {
	exit := i.process.Exit()
	name := i.slot.driver.Provider.Name()
	e := fault.Newf(fault.ProviderRuntimeDisconnected, "%s went away (%s).", name, exit.Text)
	switch {
	case i.isBroken():
		e = fault.Newf(fault.ProviderRuntimeDisconnected, "%s did not answer any more and was stopped.", name)
	case exit.Stopped:
		e = fault.Newf(fault.ProviderRuntimeDisconnected, "%s was stopped.", name)
	}
	e.Err = exit.Cause
	e = e.With("provider", i.slot.driver.Provider.String()).With("exitStatus", exit.Text)
	if tail := i.stderr(); tail != "" {
		e = e.With("stderr", tail)
	}
	return e
}

// stderr returns the last of what the program complained, redacted.
func (i *instance) stderr() string {
	return i.slot.m.cfg.Redactor.String(i.process.StderrTail(stderrTail))
}

// epoch is the moment from which used counts: setting the system's clock must not
// make the instance that was used last look like the oldest.
var epoch = time.Now()

// changed wakes the supervisor, and who waits for an idle process.
func (i *instance) changed() {
	i.used.Store(int64(time.Since(epoch)))
	if i.slot.pool != nil {
		i.slot.pool.stir()
	}
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// drain lets the instance finish its turns and stop then.
func (i *instance) drain() {
	i.draining.Store(true)
	i.runtime.Drain()
	i.changed()
}

// requestStop asks the supervisor to end the process. It does not wait.
func (i *instance) requestStop() {
	if i.stopping.CompareAndSwap(false, true) {
		close(i.stop)
	}
}

// wanted reports whether the end of the process was our own wish.
func (i *instance) wanted() bool { return i.stopping.Load() }

// greeted reports whether the handshake was done.
func (i *instance) greeted() bool { return i.ready.Load() }

// isLost reports whether the process is gone, dying, or cannot be talked to.
func (i *instance) isLost() bool {
	select {
	case <-i.process.Done():
		return true
	default:
		return i.wanted() || i.isBroken()
	}
}

// isBroken reports whether the program cannot be talked to any more.
func (i *instance) isBroken() bool {
	select {
	case <-i.runtime.Broken():
		return true
	default:
		return false
	}
}

func (i *instance) info() thread.RuntimeInfo {
	load := i.runtime.Load()
	return thread.RuntimeInfo{
		RuntimeID: i.process.RuntimeID,
		Provider:  i.slot.driver.Provider,
		PID:       i.process.PID,
		StartedAt: i.started,
		Sessions:  load.Sessions,
		Turns:     load.Turns,
		RSSBytes:  i.process.ResidentBytes(),
	}
}
