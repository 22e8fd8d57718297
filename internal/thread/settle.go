package thread

import "github.com/pedelec/pedelec-core/internal/fault"

// NeedsSettling reports whether an earlier daemon left the record in a state
// that cannot go on: in an operation, on its way to the end, on a managed
// workspace (which is gone), bound to a client's connection, or in an upload.
func (r *Record) NeedsSettling(self string) bool {
	if r.Instance == self {
		return false
	}
	return r.StagedUpload != "" || r.Status != Ended && (r.Active != nil || r.endsOnSettling(self))
}

func (r *Record) endsOnSettling(self string) bool {
	return r.Status == Stopping || r.AutoEnd || r.Workspace.Managed && r.Workspace.Instance != self
}

// EndsWithDaemon reports whether the thread is not ended and cannot outlive the daemon
// that runs now, whichever made it.
func (r *Record) EndsWithDaemon() bool {
	return r.Status != Ended && (r.Status == Stopping || r.AutoEnd || r.Workspace.Managed)
}

// SettledStatus returns the status that the record has once it is settled.
func (r *Record) SettledStatus(self string) Status {
	switch {
	case !r.NeedsSettling(self), r.Status == Ended:
		return r.Status
	case r.endsOnSettling(self):
		return Ended
	case r.Active != nil:
		return Idle
	}
	return r.Status
}

// Crashed returns the state as the crash left it, in the form in which clients
// may see it until it is settled. Sequence numbers go on behind the reserved
// block, since any of it may have been told.
func (s State) Crashed() State {
	if !s.NeedsSettling(s.self) {
		return s
	}
	if s.Active != nil {
		s.LatestSeq = max(s.LatestSeq, s.BlockEnd)
	}
	if s.Status == WaitingToolResult {
		s.Status = Running
	}
	if s.Status != Ended && s.endsOnSettling(s.self) {
		s.Status = Stopping
	}
	return s
}

func (st *stepper) settle() {
	if !st.NeedsSettling(st.self) {
		return
	}
	if st.StagedUpload != "" { // the file is removed when the thread is loaded
		st.StagedUpload = ""
		st.out.Durable = true
	}
	switch {
	case st.Status == Ended:
	case st.endsOnSettling(st.self):
		st.completeEnd()
	case st.Active != nil:
		st.completeCancelled(fault.OperationInterrupted)
	}
}

// shutdown ends the operation that runs and, where the thread cannot outlive
// this daemon, the thread.
func (st *stepper) shutdown() {
	st.leaving = true
	for _, c := range st.resuming {
		st.refuse(c, st.refusal(fault.CoreRuntimeUnavailable, "The daemon is shutting down."))
	}
	st.resuming = nil
	if st.Status == Ended {
		return
	}
	ends := st.EndsWithDaemon()
	if st.Active != nil {
		st.do(Effect{Kind: EffectAbort})
		if st.turn.phase >= starting {
			st.do(Effect{Kind: EffectCancelTurn, Turn: st.turn.id})
		}
		enders := st.turn.enders
		st.turn.enders = nil
		st.completeCancelled(fault.OperationInterrupted)
		st.turn.enders = enders
	}
	if ends {
		st.completeEnd()
	}
}
