package lifecycle

import (
	"context"
	"runtime/debug"
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

	settled chan struct{} // closed when the record was settled, or could not be for now

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
		a.mail.put(thread.Settle{})
	} else {
		close(a.settled)
	}
	return a
}

// start begins to take inputs. Service.Close waits for the end of it.
func (a *actor) start() {
	a.svc.actors.Add(1)
	go a.run()
}

// run takes inputs until the thread is unloaded, deleted, or the service stops.
func (a *actor) run() {
	defer a.svc.actors.Done()
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

// try steps one input and has the outcome stored and then done. It returns false
// when it could not be stored.
func (a *actor) try(in thread.Input) (ok bool) {
	defer a.recoverInput(in, &ok)
	a.out.Reset()
	next := thread.Step(a.state, in, a.svc.cfg.Now(), &a.out)
	if err := a.store(&next); err != nil {
		a.commitFailed(in, next, fault.From(err))
		return false
	}
	a.goOn(in, next)
	return true
}

// goOn takes the next state and tells, does and answers what a step said, in
// this order.
func (a *actor) goOn(in thread.Input, next thread.State) {
	a.state = next
	a.tell()
	if a.out.Durable || len(a.out.Replies) > 0 {
		a.publish()
	}
	for i := range a.out.Effects {
		a.perform(&a.out.Effects[i])
	}
	_ = fault.Point(PointBeforeReply)
	for _, r := range a.out.Replies {
		a.mail.reply(r)
	}
	a.afterwards(in)
}

// store makes the outcome of a step durable, if it needs to be.
func (a *actor) store(next *thread.State) error {
	if a.out.Delete {
		return a.svc.cfg.Store.Delete(a.id)
	}
	if !a.out.Durable {
		return nil
	}
	a.publishTold()
	if err := fault.Point(PointBeforeCommit); err != nil {
		return err
	}
	if err := a.svc.cfg.Store.Commit(a.out.Commit(next)); err != nil {
		return err
	}
	_ = fault.Point(PointAfterCommit)
	return nil
}

// commitFailed answers the callers whose wish could not be recorded and keeps
// what must not be lost.
func (a *actor) commitFailed(in thread.Input, next thread.State, err *fault.Error) {
	a.svc.metrics.commitFailures.Inc()
	a.log.Error().Err(err).Str(logInput, inputName(in)).Msg("a change of the thread could not be stored")
	refused, keep := thread.Refuse(a.state, in)
	a.state = refused
	caller := thread.CallerOf(in)
	a.mail.reply(thread.Reply{Caller: caller, Err: err})
	if keep || caller == 0 {
		// What they wait for goes on by itself. Where a caller's wish is refused
		// instead, nothing has begun, and others go on waiting.
		for _, r := range a.out.Replies {
			a.mail.reply(thread.Reply{Caller: r.Caller, Err: err})
		}
	}
	if keep || err.Code == fault.StorageFailed {
		h := heldInput{in: in, attempt: newAttempt(next, &a.out), refused: !keep}
		a.held.hold(h, err, a.svc.cfg.Durations.Retry)
	}
	a.unblockReaders(in)
}

// afterwards does what follows a step that is no effect of the thread's own.
func (a *actor) afterwards(in thread.Input) {
	if _, ok := in.(thread.Settle); ok {
		a.unblockReaders(in)
	}
	if t, ok := in.(thread.TimerFired); ok && t.Timer == thread.TimerAutoEnd {
		a.svc.spawn(func() { a.svc.afterAbort(a) }) // if a client came back at the last moment
	}
	if a.out.Delete {
		a.gone = true
		a.svc.registry.evict(a)
		a.mail.shut(notFound(a.id))
	}
}

// unblockReaders lets snapshots through after the first try to settle.
func (a *actor) unblockReaders(in thread.Input) {
	if _, ok := in.(thread.Settle); !ok {
		return
	}
	select {
	case <-a.settled:
	default:
		close(a.settled)
	}
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

// perform starts one effect. None of them waits.
func (a *actor) perform(e *thread.Effect) {
	switch e.Kind {
	case thread.EffectArm:
		a.timers.arm(e.Timer, e.Turn, e.Wait)
	case thread.EffectDisarm:
		a.timers.disarm(e.Timer)
	case thread.EffectAbort:
		a.runner.abort()
	case thread.EffectReserveBlock:
		a.svc.spawn(func() { a.reserveBlock(e.Turn, e.BlockEnd) })
	case thread.EffectCheckWorkspace:
		w, id := a.state.Workspace, a.id
		a.svc.spawn(func() { a.mail.put(thread.WorkspaceChecked{Err: a.svc.checkWorkspace(id, w)}) })
	default:
		a.runner.add(*e, a.spec(e))
	}
}

func (a *actor) reserveBlock(turn, end uint64) {
	if err := a.svc.cfg.Store.ReserveBlock(a.id, end); err != nil {
		a.log.Warn().Err(err).Msg("sequence numbers could not be reserved; text deltas are dropped")
		end = 0
	}
	a.mail.put(thread.BlockReserved{Turn: turn, End: end})
}

// spec tells a runtime what it must know of the thread; only an attach needs it.
func (a *actor) spec(e *thread.Effect) thread.SessionSpec {
	if e.Kind != thread.EffectAttach {
		return thread.SessionSpec{}
	}
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

// recoverInput turns a panic in a step into a refusal of its input.
func (a *actor) recoverInput(in thread.Input, ok *bool) {
	p := recover()
	if p == nil {
		return
	}
	*ok = true // an input that panics is not tried again
	a.svc.metrics.panics.Inc()
	a.log.Error().Interface("panic", p).Str(logInput, inputName(in)).Bytes("stack", debug.Stack()).Msg("an input of the thread panicked")
	err := fault.New(fault.Internal, fault.Internal.Info().Meaning)
	a.mail.reply(thread.Reply{Caller: thread.CallerOf(in), Err: err})
	a.unblockReaders(in)
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
// the last one is gone.
func (a *actor) watchers(count int) {
	if a.autoEnd {
		a.mail.put(thread.WatchersChanged{Count: count})
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
