package lifecycle

import (
	"runtime/debug"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// try steps one input and has the outcome stored and then done. It returns false
// when it could not be stored. A panic in the step refuses the input and leaves
// the thread as it was; one while storing is a failure with an unknown outcome.
func (a *actor) try(in thread.Input) (stored bool) {
	var next thread.State
	stepped := a.shielded(in, func() {
		a.out.Reset()
		next = thread.Step(a.state, in, a.svc.cfg.Now(), &a.out)
	})
	if !stepped {
		a.mail.reply(thread.Reply{Caller: thread.CallerOf(in), Err: internal()})
		a.unblockReaders(in)
		return true // an input that panics is not tried again
	}
	var err error
	if !a.shielded(in, func() { err = a.store(&next) }) {
		err = fault.New(fault.StorageFailed, "Storing the change failed in an unexpected way.")
	}
	if err != nil {
		a.commitFailed(in, next, fault.From(err))
		return false
	}
	a.goOn(in, next)
	return true
}

// goOn takes the next state and tells, does and answers what a step said, in
// this order. What is stored has happened, so a panic in one part does not keep
// the others from being done; a turn that lost an effect is given up.
func (a *actor) goOn(in thread.Input, next thread.State) {
	a.state = next
	whole := a.shielded(in, func() {
		if a.out.Durable {
			_ = fault.Point(PointAfterCommit)
		}
		a.tell()
		if a.out.Durable || len(a.out.Replies) > 0 {
			a.publish()
		}
	})
	for _, e := range a.out.Effects {
		whole = a.shielded(in, func() { a.perform(e) }) && whole
	}
	_ = fault.Point(PointBeforeReply)
	for _, r := range a.out.Replies {
		a.mail.reply(r)
	}
	whole = a.shielded(in, func() { a.afterwards(in) }) && whole
	if !whole && a.state.TurnID() != 0 {
		a.mail.put(thread.Doom{Turn: a.state.TurnID(), Err: internal()})
	}
}

// shielded runs f and reports whether it came to its end. A panic is counted and
// logged.
func (a *actor) shielded(in thread.Input, f func()) (done bool) {
	defer func() {
		if p := recover(); p != nil {
			a.svc.metrics.panics.Inc()
			a.log.Error().Interface("panic", p).Str(logInput, inputName(in)).Bytes("stack", debug.Stack()).Msg("a thread panicked while it handled an input")
		}
	}()
	f()
	return true
}

func internal() *fault.Error { return fault.New(fault.Internal, fault.Internal.Info().Meaning) }

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
	return a.svc.cfg.Store.Commit(a.out.Commit(next))
}

// commitFailed answers the callers whose wish could not be recorded and keeps
// what must not be lost.
func (a *actor) commitFailed(in thread.Input, next thread.State, err *fault.Error) {
	a.svc.metrics.commitFailures.Inc()
	level := zerolog.ErrorLevel
	if err.Code == fault.StorageFull {
		level = zerolog.DebugLevel // the store tells of it, once for all threads
	}
	a.log.WithLevel(level).Err(err).Str(logInput, inputName(in)).Msg("a change of the thread could not be stored")
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
	switch {
	case keep && !passing(err.Code):
		a.giveUp(in, err)
	case keep, err.Code == fault.StorageFailed:
		h := heldInput{in: in, attempt: newAttempt(next, &a.out), refused: !keep}
		a.held.hold(h, err, a.svc.cfg.Durations.Retry)
	}
	if _, settling := in.(thread.Settle); settling {
		a.unsettled.Store(true)
	}
	a.unblockReaders(in)
}

// passing reports whether storing the same again may succeed later.
func passing(code fault.Code) bool {
	return code == fault.StorageFull || code == fault.StorageFailed || code == fault.Overloaded
}

// giveUp drops an input that can never be stored, and the turn to which it
// belongs. Should even its end be refused, that is tried again after a while.
func (a *actor) giveUp(in thread.Input, err *fault.Error) {
	turn := a.state.TurnID()
	if turn == 0 {
		return
	}
	a.log.Error().Err(err).Str(logInput, inputName(in)).Msg("a change of the thread can never be stored; its turn is stopped")
	if a.state.Decided() {
		a.timers.arm(thread.TimerStop, turn, 0)
		return
	}
	a.mail.put(thread.Doom{Turn: turn, Err: err})
}

// afterwards does what follows a step that is no effect of the thread's own.
func (a *actor) afterwards(in thread.Input) {
	if _, ok := in.(thread.Settle); ok {
		_ = fault.Point(PointAfterSettle)
		a.unsettled.Store(false)
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

// perform starts one effect. None of them waits.
func (a *actor) perform(e thread.Effect) {
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
	case thread.EffectAttach:
		a.runner.addJob(job{effect: e, spec: a.spec(), workspace: a.state.Workspace})
	default:
		a.runner.add(e)
	}
}

func (a *actor) reserveBlock(turn, end uint64) {
	err := a.svc.cfg.Store.ReserveBlock(a.id, end)
	if failed := err != nil; a.blockless.Swap(failed) != failed && failed {
		a.log.Warn().Err(err).Msg("sequence numbers could not be reserved; text deltas are dropped until they can")
	}
	if err != nil {
		end = 0
	}
	a.mail.put(thread.BlockReserved{Turn: turn, End: end})
}
