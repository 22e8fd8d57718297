package thread

import (
	"time"
	"unicode/utf8"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func (st *stepper) attached(in Attached) {
	if in.Turn != st.turn.id || st.turn.phase != attaching {
		if in.Err == nil && st.Active == nil {
			st.do(Effect{Kind: EffectCloseSession})
		}
		return
	}
	if in.Err != nil {
		st.completeFailed(in.Err)
		return
	}
	op := st.Active
	if in.Lost != nil {
		st.tell(Event{Kind: EventError, OperationID: op.ID, Source: st.Provider, Error: in.Lost})
	}
	if in.Fresh {
		st.Session = ProviderSession{UsageBase: st.Usage.TotalTokens}
		st.Prepared = false
		st.turn.fresh = true
		st.out.Durable = true
	}
	if in.SessionID != st.Session.ID {
		st.Session.ID = in.SessionID
		st.tell(Event{Kind: EventProviderSessionIDUpdated, OperationID: op.ID, ProviderSessionID: in.SessionID})
	}
	st.turn.phase = starting
	st.turn.lastFrame = st.now
	st.do(Effect{Kind: EffectStartTurn, Turn: st.turn.id, Purpose: op.Kind, Text: st.turn.text})
}

func (st *stepper) started(in Started) {
	if in.Turn != st.turn.id || st.turn.phase != starting {
		return
	}
	if in.Err != nil && in.Unsent && !st.turn.again && st.turn.verdict == undecided {
		// The runtime was dead already, and nobody had noticed. Nothing was sent,
		// so sending it to a new one does not send it twice.
		st.turn.again, st.turn.gone = true, nil
		st.turn.phase = attaching
		st.do(Effect{Kind: EffectAttach, Turn: st.turn.id})
		return
	}
	if in.Err != nil {
		st.conclude(OutcomeFailed, in.Err)
		return
	}
	st.turn.phase = sent
	st.turn.text = ""
	st.disarm(TimerStart)
	if st.turn.gone != nil {
		st.conclude(OutcomeFailed, st.turn.gone)
		return
	}
	if st.turn.verdict == undecided && st.turn.tools.out == nil {
		st.arm(TimerSilence)
	}
}

// speaks reports whether a frame belongs to the turn that runs.
func (st *stepper) speaks(f *Frame) bool {
	return st.Active != nil && st.turn.phase >= starting && f.Turn == st.turn.id
}

func (st *stepper) frame(f *Frame) {
	switch f.Kind {
	case FrameUsage:
		if st.speaks(f) {
			st.turn.lastFrame = st.now
		}
		st.usage(f.Usage)
		return
	case FrameGone:
		st.runtimeGone(f.Err)
		return
	}
	if !st.speaks(f) {
		return
	}
	st.turn.lastFrame = st.now
	if f.Kind == FrameFinished {
		if st.turn.phase == starting && st.turn.gone != nil {
			return // it only repeats that the runtime is gone
		}
		st.conclude(f.Outcome, f.Err)
		return
	}
	if st.turn.verdict == verdictEnd || st.turn.verdict == verdictDoomed {
		return
	}
	switch f.Kind {
	case FrameDelta:
		st.delta(f.Text)
	case FrameMessage:
		st.message(f.Text)
	}
}

// runtimeGone fails the turn whose runtime is gone. A turn of which nothing was
// written yet learns it from its attach.
func (st *stepper) runtimeGone(err *fault.Error) {
	if st.Active == nil || st.turn.phase < starting {
		return
	}
	if err == nil {
		err = fault.New(fault.ProviderRuntimeDisconnected, fault.ProviderRuntimeDisconnected.Info().Meaning)
	}
	if st.turn.phase == starting {
		st.turn.gone = err // whether the text was sent decides what that means
		return
	}
	st.conclude(OutcomeFailed, err)
}

// delta tells a fragment of text, in pieces of at most maxDeltaBytes. Deltas are
// soft: without reserved sequence numbers they are dropped.
func (st *stepper) delta(text string) {
	if st.Active.Kind == Prepare || text == "" {
		return
	}
	st.turn.open = appendOpen(st.turn.open, text)
	for len(text) > 0 {
		piece, _ := CutText(text, maxDeltaBytes)
		text = text[len(piece):]
		if st.LatestSeq < st.BlockEnd {
			st.tell(Event{Kind: EventAssistantDelta, OperationID: st.Active.ID, Text: piece})
		}
	}
	st.reserve()
}

// reserve asks for the next block of sequence numbers when half of this one is
// used.
func (st *stepper) reserve() {
	if st.turn.reserved || st.BlockEnd > st.LatestSeq+SequenceBlock/2 || st.now.Before(st.turn.retryAt) {
		return
	}
	st.turn.reserved = true
	end := max(st.BlockEnd, st.LatestSeq) + SequenceBlock
	st.do(Effect{Kind: EffectReserveBlock, Turn: st.turn.id, BlockEnd: end})
}

func (st *stepper) blockReserved(in BlockReserved) {
	if st.Active == nil || in.Turn != st.turn.id {
		return
	}
	st.turn.reserved = false
	st.BlockEnd = max(st.BlockEnd, in.End)
	if in.End == 0 {
		st.turn.retryAt = st.now.Add(reserveRetry)
	}
}

func (st *stepper) message(text string) {
	st.turn.open = nil
	if st.Active.Kind == Prepare {
		st.turn.reply, _ = CutText(st.turn.reply+text, maxAckBytes+utf8.UTFMax)
		return
	}
	parts := splitEncoded(text, maxMessageBytes)
	for i, part := range parts {
		ev := Event{Kind: EventAssistantMessage, OperationID: st.Active.ID, Text: part}
		if len(parts) > 1 {
			ev.Part = Part{Index: i, Count: len(parts)}
		}
		st.tell(ev)
	}
}

// usage adds a provider's figure. The total never falls; a figure that counts a
// whole provider session starts from the thread's total when it was opened.
func (st *stepper) usage(u UsageReport) {
	total := saturatingAdd(st.Usage.TotalTokens, u.Tokens)
	if u.Cumulative {
		total = saturatingAdd(st.Session.UsageBase, u.Tokens)
	}
	if st.Usage.Known && total <= st.Usage.TotalTokens {
		return
	}
	st.Usage = Usage{Known: true, TotalTokens: max(total, st.Usage.TotalTokens)}
	st.tell(Event{Kind: EventUsageUpdated, TotalTokens: st.Usage.TotalTokens})
}

func (st *stepper) timerFired(in TimerFired) {
	if in.Timer == TimerSession {
		if st.Active == nil {
			st.do(Effect{Kind: EffectCloseSession})
		}
		return
	}
	if in.Timer == TimerAutoEnd {
		if st.AutoEnd && st.watchers == 0 {
			st.end(End{})
		}
		return
	}
	if in.Timer == TimerTool {
		st.toolTimedOut(in.Turn)
		return
	}
	if st.Active == nil || in.Turn != st.turn.id {
		return
	}
	switch in.Timer {
	case TimerStart:
		st.startTimedOut()
	case TimerStop:
		st.stopTimedOut()
	case TimerSilence:
		st.silent()
	}
}

func (st *stepper) startTimedOut() {
	if st.turn.phase == sent || st.turn.verdict != undecided {
		return
	}
	st.do(Effect{Kind: EffectAbort})
	if st.turn.phase == starting {
		st.do(Effect{Kind: EffectAbandon, Turn: st.turn.id})
	}
	st.completeFailed(fault.New(fault.ProviderTimeout, "The agent did not take the turn in time.").With("provider", st.Provider.String()))
}

// stopTimedOut completes what was decided although the provider did not confirm.
func (st *stepper) stopTimedOut() {
	if st.turn.verdict == undecided {
		return
	}
	st.do(Effect{Kind: EffectAbort})
	st.do(Effect{Kind: EffectAbandon, Turn: st.turn.id})
	st.conclude(OutcomeCancelled, nil)
}

// silent fails a turn in which the provider has said nothing for the watchdog's
// whole time. The watchdog is armed once a turn and again behind each tool
// request, whose time does not count; frames only move lastFrame.
func (st *stepper) silent() {
	if st.turn.verdict != undecided || st.turn.tools.out != nil {
		return
	}
	err := fault.New(fault.ProviderTimeout, "The agent was silent for too long.").With("provider", st.Provider.String())
	st.doomed(Doom{Turn: st.turn.id, Err: err})
}

// LastFrame returns when the turn's provider last said something. The owner of
// the watchdog uses it to wait for the rest of the time only.
func (s *State) LastFrame() time.Time { return s.turn.lastFrame }

func (st *stepper) doomed(in Doom) {
	if st.Active == nil || in.Turn != st.turn.id || st.turn.verdict != undecided {
		return
	}
	if in.Err == nil {
		in.Err = fault.New(fault.Internal, fault.Internal.Info().Meaning)
	}
	if st.turn.phase == attaching {
		st.do(Effect{Kind: EffectAbort})
		st.completeFailed(in.Err)
		return
	}
	st.interruptTools(in.Err)
	st.turn.doom = in.Err
	st.interrupt(verdictDoomed)
}

func (st *stepper) watchersChanged(in WatchersChanged) {
	before := st.watchers
	st.watchers = in.Count
	if !st.AutoEnd || st.Status == Ended {
		return
	}
	if in.Count > 0 {
		st.do(Effect{Kind: EffectDisarm, Timer: TimerAutoEnd})
	} else if before > 0 || in.Seen {
		st.do(Effect{Kind: EffectArm, Timer: TimerAutoEnd})
	}
}
