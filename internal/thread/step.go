package thread

import (
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Step returns the state after an input and fills out with what follows from
// it. It is the only place where a thread changes. out must be empty; now is
// the wall clock.
//
// When out is Durable and cannot be stored, the owner goes on with the state
// that [Refuse] returns.
func Step(s State, in Input, now time.Time, out *Output) State {
	st := stepper{State: s, now: now, out: out}
	switch in := in.(type) {
	case Admit:
		st.admit(in)
	case Cancel:
		st.cancel(in)
	case End:
		st.end(in)
	case Resume:
		st.resume(in)
	case Delete:
		st.delete(in)
	case CallTool:
		st.callTool(&in)
	case SubmitToolResult:
		st.submitToolResult(in)
	case Stage:
		st.stage(in)
	case Expire:
		st.expire(in)
	case Delivered:
		st.delivered(in)
	case Attached:
		st.attached(in)
	case Started:
		st.started(in)
	case WorkspaceChecked:
		st.workspaceChecked(in)
	case BlockReserved:
		st.blockReserved(in)
	case FrameArrived:
		st.frame(&in.Frame)
	case TimerFired:
		st.timerFired(in)
	case WatchersChanged:
		st.watchersChanged(in)
	case Doom:
		st.doomed(in)
	case Settle:
		st.settle()
	case Shutdown:
		st.shutdown()
	}
	if out.Durable {
		st.Revision++
		st.Instance = st.self
		st.UpdatedAt = now.UTC()
	}
	return st.State
}

// Refuse returns the state to go on with when the outcome of an input could not
// be stored, and whether the input must be kept and tried again. One that has a
// caller is refused, except a cancel, which goes on without its caller. A resume
// begins anew with the next request.
func Refuse(s State, in Input) (next State, keep bool) {
	switch in.(type) {
	case Admit, Resume, Delete, Expire:
		return s, false
	case End, CallTool, SubmitToolResult, Stage:
		return s, CallerOf(in) == 0
	case WorkspaceChecked:
		s.resuming = nil
		return s, false
	}
	return s, true
}

// stepper is a state on its way to the next.
type stepper struct {
	State
	now time.Time
	out *Output
}

// tell appends an event with the next sequence number.
func (st *stepper) tell(ev Event) {
	st.LatestSeq++
	ev.Seq = st.LatestSeq
	st.out.Events = append(st.out.Events, ev)
	if ev.Kind.Durable() {
		st.out.Durable = true
	}
}

// tellGroup appends events that are committed and written together.
func (st *stepper) tellGroup(evs ...Event) {
	for i, ev := range evs {
		ev.Grouped = i < len(evs)-1
		st.tell(ev)
	}
}

func (st *stepper) do(e Effect) { st.out.Effects = append(st.out.Effects, e) }

func (st *stepper) arm(t Timer) { st.do(Effect{Kind: EffectArm, Timer: t, Turn: st.turn.id}) }

func (st *stepper) disarm(t Timer) { st.do(Effect{Kind: EffectDisarm, Timer: t}) }

func (st *stepper) answer(c CallerID, value any) {
	if c != 0 {
		st.out.Replies = append(st.out.Replies, Reply{Caller: c, Value: value})
	}
}

func (st *stepper) refuse(c CallerID, err *fault.Error) {
	if c != 0 {
		st.out.Replies = append(st.out.Replies, Reply{Caller: c, Err: err})
	}
}

func (st *stepper) refusal(code fault.Code, msg string) *fault.Error {
	return fault.New(code, msg).With("threadId", st.ID)
}

func statusEvent(s Status, operationID string) Event {
	return Event{Kind: EventStatusChanged, Status: s, OperationID: operationID}
}
