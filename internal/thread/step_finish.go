package thread

import (
	"strings"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// conclude ends the active operation with what the provider says, or with what
// was decided before.
func (st *stepper) conclude(o Outcome, err *fault.Error) {
	switch st.turn.verdict {
	case verdictEnd:
		st.completeEnd()
	case verdictCancel:
		st.completeCancelled(fault.OperationCancelled)
	case verdictDoomed:
		st.completeFailed(st.turn.doom)
	default:
		st.concludeUndecided(o, err)
	}
}

func (st *stepper) concludeUndecided(o Outcome, err *fault.Error) {
	switch {
	case o == OutcomeSuccess && st.Active.Kind == Prepare && !st.acknowledged():
		st.completeFailed(st.wrongAck())
	case o == OutcomeSuccess:
		st.completeOK()
	case o == OutcomeCancelled:
		// Nobody here asked for it: the agent gave up by itself.
		st.completeFailed(fault.New(fault.ProviderRequestFailed, "The agent cancelled the turn by itself.").With("provider", st.Provider.String()))
	case err == nil:
		st.completeFailed(fault.New(fault.ProviderRequestFailed, "The agent ended the turn without success.").With("provider", st.Provider.String()))
	default:
		st.completeFailed(err)
	}
}

// acknowledged reports whether the agent's whole reply is the acknowledgement.
func (st *stepper) acknowledged() bool {
	return len(st.turn.reply) <= maxAckBytes && strings.TrimSpace(st.turn.reply) == PrepareAck
}

func (st *stepper) wrongAck() *fault.Error {
	shown, _ := CutText(st.turn.reply, maxAckDetail)
	return st.refusal(fault.PrepareAckInvalid, "The agent did not acknowledge the preparation as it was asked to.").
		With("provider", st.Provider.String()).With("assistantOutput", shown)
}

func (st *stepper) completeOK() {
	op := st.Active
	st.Session.Resumable = true
	st.Session.Instructed = true
	if op.Kind == Prepare {
		st.Prepared = true
	} else {
		st.Session.UserTurn = true
	}
	st.Status = Idle
	done := st.finish(nil)
	st.tellGroup(statusEvent(Idle, op.ID), completedEvent(done))
	st.release(false)
}

func (st *stepper) completeFailed(err *fault.Error) {
	op := st.Active
	if err.Code == fault.ProviderSessionLost || op.Kind == Prepare && st.turn.fresh {
		st.forgetSession()
	}
	st.Status = Failed
	if op.Kind == Prepare {
		st.Status = Idle
	}
	done := st.finish(err)
	st.tellGroup(
		Event{Kind: EventError, OperationID: op.ID, Source: st.blame(err), Error: err},
		statusEvent(st.Status, op.ID),
		completedEvent(done),
	)
	st.release(false)
}

// blame returns the provider as the source of an error, or 0 when the reason is
// ours: a full disk, a queue that overflowed.
func (st *stepper) blame(err *fault.Error) Provider {
	switch err.Code.Info().Group {
	case "core", "envelope":
		return 0
	}
	return st.Provider
}

// forgetSession closes and drops the provider session, so that the next turn
// opens a fresh one.
func (st *stepper) forgetSession() {
	st.do(Effect{Kind: EffectCloseSession})
	st.Session = ProviderSession{}
	st.Prepared = false
}

// completeCancelled ends the operation without an error event; code says why.
func (st *stepper) completeCancelled(code fault.Code) {
	st.Status = Idle
	done := st.finish(fault.New(code, code.Info().Meaning))
	st.tellGroup(completedEvent(done), statusEvent(Idle, ""))
	st.release(code == fault.OperationCancelled)
}

// completeEnd tells the end of the thread: ended comes first, since clients
// take everything before it for something else.
func (st *stepper) completeEnd() {
	for _, c := range st.resuming { // their check began before the end, and must not undo it
		st.refuse(c, st.refusal(fault.ThreadEnded, "The thread was ended meanwhile."))
	}
	st.resuming = nil
	group := []Event{{Kind: EventEnded}}
	if st.Active != nil {
		err := fault.New(fault.ThreadEnded, "The thread was ended while the operation ran.").With("threadId", st.ID)
		group = append(group, completedEvent(st.finish(err)))
	}
	st.Status = Ended
	st.tellGroup(append(group, statusEvent(Ended, ""))...)
	st.do(Effect{Kind: EffectCloseSession})
	st.disarm(TimerAutoEnd)
	st.release(false)
	st.disarm(TimerSession)
}

// finish stores the outcome of the active operation, which is no longer active
// then, and gives the unused sequence numbers back.
func (st *stepper) finish(err *fault.Error) *CompletedOperation {
	reason := err
	if reason == nil {
		reason = fault.New(fault.ToolCancelled, fault.ToolCancelled.Info().Meaning)
	}
	st.closeTools(reason)
	done := &CompletedOperation{ID: st.Active.ID, Kind: st.Active.Kind, Success: err == nil, Error: err, CompletedAt: st.now.UTC()}
	op := st.turn.operation
	op.Completed = done
	st.out.Operations = append(st.out.Operations, op)
	st.Active = nil
	st.LastCompleted = done
	st.BlockEnd = 0
	return done
}

// release answers everybody who waited for the turn and forgets it.
func (st *stepper) release(cancelled bool) {
	id := ""
	if st.LastCompleted != nil {
		id = st.LastCompleted.ID
	}
	for _, c := range st.turn.cancels {
		st.answer(c, Cancellation{OperationID: id, Cancelled: cancelled})
	}
	for _, c := range st.turn.enders {
		st.answer(c, nil)
	}
	if st.turn.id != 0 {
		st.disarm(TimerStart)
		st.disarm(TimerSilence)
		st.disarm(TimerStop)
		st.do(Effect{Kind: EffectArm, Timer: TimerSession})
	}
	st.turn = turn{}
}

func completedEvent(c *CompletedOperation) Event {
	return Event{Kind: EventOperationCompleted, OperationID: c.ID, OperationKind: c.Kind, Success: c.Success, Error: c.Error}
}
