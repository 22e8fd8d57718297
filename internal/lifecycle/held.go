package lifecycle

import (
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// held keeps, in order, inputs whose outcome could not be stored and durable
// ones that came after them.
type held struct {
	inputs  []thread.Input
	bytes   int
	cause   *fault.Error // why the first one could not be stored
	timer   *time.Timer
	flooded bool // there was no more room: the turn is given up, its frames are dropped
}

func (h *held) any() bool { return len(h.inputs) > 0 }

// retry is the channel on which the next try is due; nil when nothing is held.
func (h *held) retry() <-chan time.Time {
	if h.timer == nil || !h.any() {
		return nil
	}
	return h.timer.C
}

func (h *held) push(in thread.Input, cause *fault.Error, wait time.Duration) {
	h.inputs = append(h.inputs, in)
	h.bytes += inputCost(in)
	if cause != nil {
		h.cause = cause
	}
	if h.timer == nil {
		h.timer = time.NewTimer(wait)
	} else if cause != nil {
		h.timer.Reset(wait)
	}
}

func (h *held) pop() {
	h.bytes -= inputCost(h.inputs[0])
	h.inputs[0] = nil
	h.inputs = h.inputs[1:]
	if len(h.inputs) > 0 {
		return
	}
	h.timer.Stop()
	*h = held{}
}

func (h *held) room(in thread.Input) bool {
	return h.bytes+inputCost(in) <= maxHeldBytes
}

func inputCost(in thread.Input) int {
	if f, ok := in.(thread.FrameArrived); ok {
		return cost(&f.Frame)
	}
	return frameOverhead
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
		if a.held.room(in) {
			a.held.push(in, nil, 0)
		}
	case thread.WatchersChanged, thread.BlockReserved:
		a.try(in) // nothing of it needs the disk
	case thread.End, thread.Resume, thread.Delete:
		if caller := thread.CallerOf(in); caller != 0 {
			a.mail.reply(thread.Reply{Caller: caller, Err: a.held.cause})
			return
		}
		a.held.push(in, nil, 0)
	case thread.FrameArrived:
		a.holdFrame(in)
	default:
		a.held.push(in, nil, 0)
	}
}

// holdFrame keeps a provider's frame. When there is no room left the turn is
// given up: what is held will be stored in order, later frames are dropped.
func (a *actor) holdFrame(in thread.FrameArrived) {
	f := &in.Frame
	if f.Kind == thread.FrameActivity || f.Kind == thread.FrameDelta {
		return
	}
	if f.Kind == thread.FrameFinished || f.Kind == thread.FrameGone {
		a.held.push(in, nil, 0)
		return
	}
	if a.held.flooded {
		return
	}
	if a.held.room(in) {
		a.held.push(in, nil, 0)
		return
	}
	a.held.flooded = true
	turn := a.state.TurnID()
	a.runner.add(thread.Effect{Kind: thread.EffectCancelTurn, Turn: turn}, thread.SessionSpec{})
	full := fault.New(fault.StorageFull, "The disk has been full for too long; the turn was stopped.")
	a.held.push(thread.Doom{Turn: turn, Err: full}, nil, 0)
	a.log.Error().Msg("too much of the agent's work waits for the disk; its turn is stopped")
}

// retryHeld stores held inputs in order until one fails again.
func (a *actor) retryHeld() {
	for a.held.any() {
		in := a.held.inputs[0]
		rest := a.held
		a.held = held{}
		ok := a.try(in)
		failedAgain := a.held.any()
		cause := a.held.cause
		if a.held.timer != nil {
			a.held.timer.Stop()
		}
		a.held = rest
		if !ok && failedAgain {
			a.held.cause = cause
			a.held.timer.Reset(a.svc.cfg.Durations.Retry)
			return
		}
		a.held.pop()
	}
}
