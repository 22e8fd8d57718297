package lifecycle

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// actor owns one loaded thread. Fields below "run" are touched by its goroutine
// only.
type actor struct {
	id      string
	owner   string // never changes
	autoEnd bool   // never changes
	svc     *Service
	log     zerolog.Logger
	skills  *tool.Skills // nil = created without
	tools   *tool.Set
	answers deliveries   // tool answers that may not have arrived
	natives atomic.Int32 // native tool calls that are being checked
	mail    *mailbox
	ring    *ring
	timers  *timers
	runner  *runner

	settled   chan struct{} // closed when the record was settled, or could not be for now
	unsettled atomic.Bool   // it could not be
	blockless atomic.Bool   // the latest block of sequence numbers could not be reserved

	// run
	state  thread.State
	out    thread.Output
	told   []line // encoded, not published yet
	held   held
	gone   bool // the thread was deleted
	linger *time.Timer
}

// newActor makes the actor of a loaded thread, which still has to be started.
func (s *Service) newActor(l thread.Loaded, active thread.Operation) *actor {
	state := thread.NewState(l, active, s.cfg.Instance)
	a := &actor{
		id: l.Record.ID, owner: l.Record.Owner, autoEnd: l.Record.AutoEnd,
		svc: s, log: s.cfg.Log.With().Str(logThread, l.Record.ID).Logger(),
		skills: l.Skills, mail: newMailbox(), settled: make(chan struct{}),
	}
	var skills tool.Skills
	if l.Skills != nil {
		skills = *l.Skills
	}
	a.tools = tool.NewSet(skills, time.Now)
	a.timers = newTimers(a.mail, s.cfg.Durations)
	a.timers.beforeAutoEnd = func() { s.cfg.Transfers.Abort(a.id) }
	a.runner = &runner{a: a}
	unsettled := l.Record.NeedsSettling(s.cfg.Instance)
	a.state = state.Crashed()
	a.ring = newRing(a.state)
	if unsettled {
		_ = fault.Point(PointBeforeSettle)
		a.mail.put(thread.Settle{})
	} else {
		close(a.settled)
	}
	return a
}

// start begins to take inputs. Service.Close waits for the end of it.
func (a *actor) start() {
	if !a.svc.begin(&a.svc.actors, a.run) {
		a.mail.shut(leaving())
	}
}

// run takes inputs until the thread is unloaded, deleted, or the service stops.
func (a *actor) run() {
	a.linger = time.NewTimer(0)
	a.linger.Stop()
	defer a.linger.Stop()
	var b batch
	for {
		select {
		case <-a.mail.wake:
		case <-a.held.retry():
			a.retryHeld()
		case <-a.linger.C:
			if a.unload() {
				return
			}
		case <-a.svc.kill.Done():
			a.timers.stopAll()
			a.mail.shut(leaving())
			return
		}
		a.mail.drain(&b)
		a.handle(&b)
		if a.gone {
			a.timers.stopAll()
			return
		}
		if b.empty() {
			b.dropMemory()
		}
		a.rest()
	}
}

// handle steps through a batch. Text that was told on the way is published at
// its end at the latest.
func (a *actor) handle(b *batch) {
	for _, in := range b.own {
		a.accept(in)
	}
	for i := range b.frames {
		a.accept(thread.FrameArrived{Frame: b.frames[i]})
	}
	for _, in := range b.requests {
		if a.gone {
			return // whoever waits was answered
		}
		a.accept(in)
	}
	a.publishTold()
}

// accept handles one input, or keeps or refuses it while the disk is in trouble.
func (a *actor) accept(in thread.Input) {
	if t, ok := in.(thread.TimerFired); ok && a.notYet(t) {
		return
	}
	if f, ok := in.(thread.FrameArrived); ok && f.Frame.Kind == thread.FrameToolCall {
		a.nativeCall(f.Frame)
	}
	if a.held.any() {
		a.acceptWhileHolding(in)
		return
	}
	a.try(in)
}

// notYet re-arms a silence watchdog when the provider has spoken since it was
// armed.
func (a *actor) notYet(t thread.TimerFired) bool {
	if t.Timer != thread.TimerSilence || t.Turn != a.state.TurnID() {
		return false
	}
	rest := a.svc.cfg.Durations.Silence - a.svc.cfg.Now().Sub(a.state.LastFrame())
	if rest <= 0 {
		return false
	}
	a.timers.arm(thread.TimerSilence, t.Turn, rest)
	return true
}

// tell encodes the events of a step, to be published.
func (a *actor) tell() {
	for i := range a.out.Events {
		ev := &a.out.Events[i]
		a.told = append(a.told, line{seq: ev.Seq, grouped: ev.Grouped, bytes: a.svc.cfg.Encode(nil, a.id, ev)})
		a.svc.metrics.count(ev)
	}
}

// publishTold shows events that were told since the last time, if there are any.
func (a *actor) publishTold() {
	if len(a.told) > 0 {
		a.publish()
	}
}

// publish shows state and told events to readers and subscribers.
func (a *actor) publish() {
	a.ring.publish(&a.state, a.told)
	clear(a.told)
	a.told = a.told[:0]
}

// spec tells a runtime what it must know of the thread.
func (a *actor) spec() thread.SessionSpec {
	r := a.state.Record
	workspace := r.Workspace.Path
	spec := thread.SessionSpec{
		ThreadID: a.id, Provider: r.Provider, WorkspacePath: workspace,
		PrivateDir: func() (string, error) { return a.svc.cfg.Workspaces.PrivateDir(workspace, a.id) },
		EffortArgs: r.EffortArgs, Permission: a.svc.cfg.Profiles.Permission(r.Provider),
		Skills: a.skills,
	}
	host := thread.Host{ThreadID: a.id, WorkspacePath: workspace, Skills: a.skills, CLI: a.svc.cfg.CLI}
	spec.Instructions = func(c thread.ToolChannel) string { return thread.HostInstructions(host, c) }
	if r.Session.Resumable {
		spec.SessionID, spec.Instructed = r.Session.ID, r.Session.Instructed
	}
	return spec
}

// rest prepares for unloading when nothing is left to do.
func (a *actor) rest() {
	if a.state.Active == nil {
		a.ring.tidy()
	}
	if a.quiet() {
		a.linger.Reset(a.svc.cfg.Durations.Linger)
	} else {
		a.linger.Stop()
	}
}

func (a *actor) quiet() bool {
	return a.state.Idle() && !a.held.any() && a.timers.none() && a.runner.idle() && !a.svc.registry.used(a)
}

// unload leaves the registry if the thread is still quiet.
func (a *actor) unload() bool {
	if !a.quiet() || !a.mail.quiet() {
		return false
	}
	a.runner.closeTools() // of a session whose process is gone; before another actor can open its own
	if !a.svc.registry.remove(a) {
		return false
	}
	a.mail.shut(fault.New(fault.Overloaded, "The thread was being unloaded; try again."))
	return true
}

// watchers reports the number of subscriptions of a thread that must end when
// the last one is gone. The ring's lock is held, so that reports come in order.
func (a *actor) watchers(count int) {
	if a.autoEnd {
		a.mail.putWatchers(count)
	}
}

// ask sends a request to the actor and waits for its answer.
func (a *actor) ask(ctx context.Context, request func(thread.CallerID) thread.Input) (any, error) {
	id := thread.CallerID(a.svc.callers.Add(1))
	reply := make(chan thread.Reply, 1)
	if err := a.mail.ask(id, request(id), reply); err != nil {
		return nil, err
	}
	thread.Placed(ctx)
	select {
	case r := <-reply:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Value, nil
	case <-ctx.Done():
		a.mail.forget(id)
		return nil, fault.Wrap(fault.Internal, "lifecycle.ask", context.Cause(ctx), "The request was given up.")
	}
}

// awaitSettled waits until readers may see the thread.
func (a *actor) awaitSettled(ctx context.Context) error {
	select {
	case <-a.settled:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.Internal, "lifecycle.read", context.Cause(ctx), "The request was given up.")
	}
}
