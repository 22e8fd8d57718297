package thread

import (
	"slices"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func (st *stepper) admit(in Admit) {
	if reply, known := Duplicate(&st.State, in); known {
		st.out.Replies = append(st.out.Replies, reply)
		return
	}
	if in.Leaving || st.leaving {
		st.refuse(in.Caller, st.refusal(fault.CoreRuntimeUnavailable, "The daemon is shutting down."))
		return
	}
	if err := st.admissible(in.Kind); err != nil {
		st.refuse(in.Caller, err)
		return
	}
	if in.Kind == Prepare && st.prepared() {
		st.admitPrepared(in)
		return
	}
	st.turns++
	st.turn = turn{id: st.turns, phase: attaching, text: in.Text, lastFrame: st.now}
	if in.Kind == Prepare {
		st.turn.text = PreparePrompt
	}
	st.Active = &ActiveOperation{ID: in.OperationID, Kind: in.Kind, StartedAt: st.now.UTC()}
	st.Status = Running
	st.tell(statusEvent(Running, in.OperationID))
	st.BlockEnd = st.LatestSeq + SequenceBlock
	st.turn.operation = st.record(in, false)
	st.out.Operations = append(st.out.Operations, st.turn.operation)
	st.answer(in.Caller, Admission{OperationID: in.OperationID})
	st.disarm(TimerSession)
	st.arm(TimerStart)
	st.do(Effect{Kind: EffectAttach, Turn: st.turn.id})
}

// Duplicate answers an operation that the thread has admitted before: the same
// answer for the same kind and text, INVALID_INPUT for anything else.
func Duplicate(s *State, in Admit) (reply Reply, known bool) {
	i := slices.IndexFunc(s.Operations, func(a Admitted) bool { return a.ID == in.OperationID })
	if i < 0 {
		return Reply{}, false
	}
	op := s.Operations[i]
	reason := ""
	switch {
	case op.Kind != in.Kind:
		reason = "the id names an operation of another kind"
	case op.Hash != HashText(in.Text):
		reason = "the id names an operation with another text"
	}
	if reason != "" {
		err := fault.New(fault.InvalidInput, "This operation id was used before: "+reason+".").
			With("operationId", in.OperationID).With("reason", reason)
		return Reply{Caller: in.Caller, Err: err}, true
	}
	return Reply{Caller: in.Caller, Value: Admission{OperationID: op.ID, AlreadyPrepared: op.AlreadyPrepared, Replayed: true}}, true
}

// admissible returns why no operation of this kind can begin now, or nil.
func (st *stepper) admissible(kind OperationKind) *fault.Error {
	switch {
	case st.Status == Ended:
		return st.refusal(fault.ThreadEnded, "The thread has ended; resume it first.")
	case st.Status.InTurn():
		return st.refusal(fault.ThreadBusy, "The thread is busy with another operation.")
	case st.Status == Failed && kind == User:
		return st.refusal(fault.ProviderCommandFailed, "The thread is in error; prepare it, or end and resume it.")
	}
	return nil
}

// admitPrepared completes a prepare that has nothing to do: admitted, told and
// done in one commit, never visible as an active operation.
func (st *stepper) admitPrepared(in Admit) {
	started := st.now.UTC()
	done := &CompletedOperation{ID: in.OperationID, Kind: Prepare, Success: true, CompletedAt: started}
	st.Status = Idle
	st.LastCompleted = done
	st.tellGroup(
		statusEvent(Running, in.OperationID),
		statusEvent(Idle, in.OperationID),
		completedEvent(done),
	)
	op := st.record(in, true)
	op.AdmittedSeq = st.LatestSeq - 2
	op.Completed = done
	st.out.Operations = append(st.out.Operations, op)
	st.answer(in.Caller, Admission{OperationID: in.OperationID, AlreadyPrepared: true})
}

// record remembers an admitted operation and forgets the oldest one when there
// are too many.
func (st *stepper) record(in Admit, alreadyPrepared bool) Operation {
	text, truncated := CutText(in.Text, MaxStoredText)
	op := Operation{
		ID: in.OperationID, Kind: in.Kind, Hash: HashText(in.Text),
		Text: text, TextTruncated: truncated, AlreadyPrepared: alreadyPrepared,
		AdmittedSeq: st.LatestSeq, StartedAt: st.now.UTC(),
	}
	kept := st.Operations
	if len(kept) >= MaxOperations {
		st.out.Drop = append(st.out.Drop, kept[0].ID)
		kept = kept[1:]
	}
	st.Operations = append(slices.Clone(kept), Admitted{ID: op.ID, Kind: op.Kind, Hash: op.Hash, AlreadyPrepared: alreadyPrepared})
	return op
}

func (st *stepper) cancel(in Cancel) {
	named := in.OperationID
	if st.Active == nil || st.Status == Stopping || named != "" && named != st.Active.ID {
		st.answer(in.Caller, Cancellation{OperationID: named})
		return
	}
	st.turn.cancels = addCaller(st.turn.cancels, in.Caller)
	if st.turn.phase == attaching {
		st.do(Effect{Kind: EffectAbort})
		st.completeCancelled(fault.OperationCancelled)
		return
	}
	st.interruptTools(fault.New(fault.OperationCancelled, fault.OperationCancelled.Info().Meaning))
	st.interrupt(verdictCancel)
}

func (st *stepper) end(in End) {
	switch {
	case st.Status == Ended:
		st.answer(in.Caller, nil)
	case st.Status == Stopping:
		st.turn.enders = addCaller(st.turn.enders, in.Caller)
	case st.Active == nil:
		st.turn.enders = addCaller(nil, in.Caller)
		st.completeEnd()
	case st.turn.phase == attaching:
		st.turn.enders = addCaller(nil, in.Caller)
		st.do(Effect{Kind: EffectAbort})
		st.tell(statusEvent(Stopping, ""))
		st.completeEnd()
	default:
		st.turn.enders = addCaller(nil, in.Caller)
		st.closeTools(st.refusal(fault.ThreadEnded, "The thread was ended while the tool call waited."))
		st.Status = Stopping
		st.tell(statusEvent(Stopping, ""))
		st.interrupt(verdictEnd)
	}
}

// interrupt asks the provider to stop the turn, once, and gives it TimerStop to
// confirm. The larger verdict stands.
func (st *stepper) interrupt(v verdict) {
	first := st.turn.verdict == undecided
	if v <= st.turn.verdict {
		return
	}
	st.turn.verdict = v
	if first {
		st.do(Effect{Kind: EffectCancelTurn, Turn: st.turn.id})
		st.disarm(TimerSilence)
	}
	if first || v == verdictEnd {
		st.arm(TimerStop)
	}
}

func (st *stepper) resume(in Resume) {
	switch {
	case st.leaving:
		st.refuse(in.Caller, st.refusal(fault.CoreRuntimeUnavailable, "The daemon is shutting down."))
	case st.Status.InTurn():
		st.refuse(in.Caller, st.refusal(fault.ThreadBusy, "The thread is busy with an operation."))
	case st.Status == Failed:
		st.refuse(in.Caller, st.refusal(fault.ProviderCommandFailed, "The thread is in error; prepare it, or end it and resume it then."))
	default:
		if len(st.resuming) == 0 {
			st.do(Effect{Kind: EffectCheckWorkspace})
		}
		st.resuming = addCaller(st.resuming, in.Caller)
	}
}

func (st *stepper) workspaceChecked(in WorkspaceChecked) {
	waiting := st.resuming
	st.resuming = nil
	err := in.Err
	if err == nil && st.Status.InTurn() {
		err = st.refusal(fault.ThreadBusy, "The thread is busy with an operation.")
	}
	if err == nil && st.Status == Failed {
		err = st.refusal(fault.ProviderCommandFailed, "The thread is in error; prepare it, or end it and resume it then.")
	}
	if err != nil {
		for _, c := range waiting {
			st.refuse(c, err)
		}
		return
	}
	if st.Status == Ended && len(waiting) > 0 {
		st.Status = Idle
		st.tell(statusEvent(Idle, ""))
	}
	snapshot := st.Snapshot()
	for _, c := range waiting {
		st.answer(c, snapshot)
	}
}

func (st *stepper) stage(in Stage) {
	if st.StagedUpload != in.Name {
		st.StagedUpload = in.Name
		st.out.Durable = true
	}
	st.answer(in.Caller, nil)
}

func (st *stepper) expire(in Expire) {
	switch {
	case !st.UpdatedAt.Equal(in.UpdatedAt) || st.Active != nil:
		st.refuse(in.Caller, st.refusal(fault.ThreadBusy, "The thread was used meanwhile."))
	case st.Status == Ended:
		st.delete(Delete{Caller: in.Caller})
	default:
		st.end(End{Caller: in.Caller})
	}
}

func (st *stepper) delete(in Delete) {
	if st.Status != Ended {
		st.refuse(in.Caller, st.refusal(fault.ThreadBusy, "Only an ended thread can be deleted; end it first."))
		return
	}
	if len(st.resuming) > 0 {
		st.refuse(in.Caller, st.refusal(fault.ThreadBusy, "The thread is being resumed."))
		return
	}
	st.out.Delete = true
	st.answer(in.Caller, nil)
}

// addCaller appends to a fresh list, since older states share the old one.
func addCaller(list []CallerID, c CallerID) []CallerID {
	if c == 0 {
		return list
	}
	return append(slices.Clone(list), c)
}
