package lifecycle

import (
	"slices"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// held keeps, in order, an input whose outcome could not be stored and inputs
// that came after it.
type held struct {
	inputs  []heldInput
	bytes   int
	cause   *fault.Error // why the first one could not be stored
	timer   *time.Timer
	flooded bool // there was no more room: the turn is given up, its frames are dropped
}

// heldInput is one of them. The first has an attempt: what was to be stored. It
// is tried again as it was, since a failed commit may have been written after
// all, and only the very same one is then recognised.
type heldInput struct {
	in      thread.Input
	attempt *attempt
	// refused: its caller was told that it failed, so it is not tried again; but
	// it is looked up whether it was written.
	refused bool
}

// attempt is the outcome of a step, kept to be stored later.
type attempt struct {
	next thread.State
	out  thread.Output
}

func newAttempt(next thread.State, out *thread.Output) *attempt {
	kept := *out
	kept.Events = slices.Clone(out.Events)
	kept.Effects = slices.Clone(out.Effects)
	kept.Replies = slices.Clone(out.Replies) // who has been answered meanwhile is not answered again
	return &attempt{next: next, out: kept}
}

func (h *held) any() bool { return len(h.inputs) > 0 }

// retry is the channel on which the next try is due; nil when nothing is held.
func (h *held) retry() <-chan time.Time {
	if !h.any() {
		return nil
	}
	return h.timer.C
}

// hold begins to hold, with the input that failed.
func (h *held) hold(first heldInput, cause *fault.Error, wait time.Duration) {
	h.cause = cause
	h.timer = time.NewTimer(wait)
	h.push(first)
}

func (h *held) push(i heldInput) {
	h.inputs = append(h.inputs, i)
	h.bytes += inputCost(i.in)
}

func (h *held) pop() {
	h.bytes -= inputCost(h.inputs[0].in)
	h.inputs[0] = heldInput{}
	h.inputs = h.inputs[1:]
	if len(h.inputs) == 0 {
		h.timer.Stop()
		*h = held{}
	}
}

func (h *held) room(in thread.Input) bool {
	return h.bytes+inputCost(in) <= maxHeldBytes
}

func inputCost(in thread.Input) int {
	if f, ok := in.(thread.FrameArrived); ok {
		return cost(&f.Frame)
	}
	return frameOverhead // the others carry no text of anybody's
}

// acceptWhileHolding answers durable requests with the storage's error, drops
// what is soft, and keeps the rest behind what is held already.
func (a *actor) acceptWhileHolding(in thread.Input) {
	switch in := in.(type) {
	case thread.Admit:
		if reply, known := thread.Duplicate(&a.state, in); known {
			a.mail.reply(reply)
			return
		}
		a.mail.reply(thread.Reply{Caller: in.Caller, Err: a.held.cause})
	case thread.Cancel:
		// The caller is told that nothing can be recorded; the wish stays.
		a.mail.reply(thread.Reply{Caller: in.Caller, Err: a.held.cause})
		a.holdIfRoom(in)
	case thread.FrameArrived:
		a.holdFrame(in)
	case thread.WatchersChanged:
		a.holdWatchers(in)
	case thread.CallTool:
		a.mail.reply(thread.Reply{Caller: in.Caller, Err: a.held.cause})
		if in.Native {
			answer := thread.ToolAnswer{Error: a.held.cause}
			a.runner.add(thread.Effect{Kind: thread.EffectAnswerTool, Turn: a.state.TurnID(), CallID: in.CallID, Answer: answer})
		}
	default:
		if caller := thread.CallerOf(in); caller != 0 {
			a.mail.reply(thread.Reply{Caller: caller, Err: a.held.cause})
			return
		}
		a.held.push(heldInput{in: in})
	}
}

func (a *actor) holdIfRoom(in thread.Input) {
	if a.held.room(in) {
		a.held.push(heldInput{in: in})
	}
}

// holdWatchers keeps only the latest count, since clients may come and go as
// often as they like meanwhile.
func (a *actor) holdWatchers(in thread.WatchersChanged) {
	for i := 1; i < len(a.held.inputs); i++ {
		if before, ok := a.held.inputs[i].in.(thread.WatchersChanged); ok {
			a.held.inputs[i].in = before.Then(in)
			return
		}
	}
	a.held.push(heldInput{in: in})
}

// holdFrame keeps a provider's frame. When there is no room left the turn is
// given up: what is held will be stored in order, later frames are dropped.
func (a *actor) holdFrame(in thread.FrameArrived) {
	switch in.Frame.Kind {
	case thread.FrameActivity, thread.FrameDelta, thread.FrameToolCall: // soft, or checked elsewhere
		return
	case thread.FrameFinished, thread.FrameGone:
		a.held.push(heldInput{in: in})
		return
	}
	if a.held.flooded {
		return
	}
	if a.held.room(in) {
		a.held.push(heldInput{in: in})
		return
	}
	a.held.flooded = true
	turn := a.state.TurnID()
	a.runner.add(thread.Effect{Kind: thread.EffectCancelTurn, Turn: turn})
	full := fault.New(fault.StorageFull, "The disk has been full for too long; the turn was stopped.")
	a.held.push(heldInput{in: thread.Doom{Turn: turn, Err: full}})
	a.log.Error().Msg("too much of the agent's work waits for the disk; its turn is stopped")
}

// retryHeld goes through held inputs in order until one fails again.
func (a *actor) retryHeld() {
	for a.held.any() {
		first := a.held.inputs[0]
		if first.attempt == nil {
			if !a.tryHeld(first.in) {
				return
			}
			continue
		}
		err := internal() // stays if it panics: then it is tried again, later
		a.shielded(first.in, func() {
			if first.refused {
				err = a.lookUp(first)
			} else {
				err = a.tryAgain(first)
			}
		})
		if err != nil {
			a.held.cause = err
			a.held.timer.Reset(a.svc.cfg.Durations.Retry)
			return
		}
		a.held.pop()
	}
}

// tryAgain stores the very same outcome as before.
func (a *actor) tryAgain(h heldInput) *fault.Error {
	a.out = h.attempt.out
	if err := a.store(&h.attempt.next); err != nil {
		a.out = thread.Output{} // the attempt keeps its own
		return fault.From(err)
	}
	a.goOn(h.in, h.attempt.next)
	return nil
}

// lookUp finds out whether a refused change was written in spite of the error.
// If so, it has happened, and the thread goes on from there.
func (a *actor) lookUp(h heldInput) *fault.Error {
	l, err := a.svc.cfg.Store.Load(a.id)
	written := fault.Is(err, fault.ThreadNotFound) && h.attempt.out.Delete
	if err != nil && !written {
		return fault.From(err)
	}
	if err == nil {
		written = l.Record.Revision == h.attempt.next.Revision && l.Record.Instance == h.attempt.next.Instance && !h.attempt.out.Delete
	}
	if !written {
		return nil
	}
	a.log.Warn().Str(logInput, inputName(h.in)).Msg("a change whose storing had failed was found to be stored")
	a.out = h.attempt.out
	a.goOn(h.in, h.attempt.next)
	return nil
}

// tryHeld steps an input that was held behind another one. If it fails, it is
// the one that is tried again.
func (a *actor) tryHeld(in thread.Input) bool {
	a.held.pop()
	rest := a.held
	a.held = held{}
	a.try(in)
	if !a.held.any() {
		a.held = rest
		return true
	}
	for _, i := range rest.inputs {
		a.held.push(i)
	}
	a.held.flooded = rest.flooded
	if rest.timer != nil {
		rest.timer.Stop()
	}
	return false
}
