package thread

import (
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Output is what follows from an input, besides the next state. If Durable, the
// state and the events must be stored first; events, effects and replies leave
// after that, in this order.
type Output struct {
	Durable    bool
	Events     []Event
	Operations []Operation // to be stored
	Drop       []string    // operation ids to be forgotten
	Effects    []Effect
	Replies    []Reply
	Delete     bool // the thread is to be removed from the store
}

// Reset empties the output for the next step and keeps its memory.
func (o *Output) Reset() {
	clear(o.Events)
	clear(o.Effects)
	clear(o.Replies)
	*o = Output{Events: o.Events[:0], Effects: o.Effects[:0], Replies: o.Replies[:0]}
}

// Commit returns what must be stored for the state s that came with o.
func (o *Output) Commit(s *State) Commit {
	return Commit{Record: s.Record, Events: o.Events, Operations: o.Operations, Drop: o.Drop}
}

// Reply answers a caller: with a value, or with an error.
type Reply struct {
	Caller CallerID
	Value  any // Admission, Cancellation, Snapshot, jsontext.Value (of a tool call) or nil
	Err    *fault.Error
}

// EffectKind is something that the owner of a state must do.
type EffectKind uint8

// The effects.
const (
	// EffectAttach opens or resumes the provider session, result [Attached].
	EffectAttach EffectKind = iota + 1
	// EffectStartTurn hands Text to the provider, result [Started].
	EffectStartTurn
	// EffectCancelTurn asks the provider to interrupt the turn.
	EffectCancelTurn
	// EffectAbandon tells the runtime that the turn did not confirm its
	// interruption in time.
	EffectAbandon
	// EffectAbort cancels the attach or start in hand, and any that waits.
	EffectAbort
	// EffectCloseSession ends the provider session, best effort.
	EffectCloseSession
	// EffectAnswerTool answers a native tool call.
	EffectAnswerTool
	// EffectCheckWorkspace looks at the workspace, result [WorkspaceChecked].
	EffectCheckWorkspace
	// EffectReserveBlock records BlockEnd, result [BlockReserved].
	EffectReserveBlock
	// EffectArm starts Timer anew; EffectDisarm stops it.
	EffectArm
	EffectDisarm
)

// Effect is one thing to do.
type Effect struct {
	Kind     EffectKind
	Turn     uint64
	Text     string
	Purpose  OperationKind // of the turn that is started
	Timer    Timer
	Wait     time.Duration // EffectArm: 0 = the timer's own duration
	BlockEnd uint64
	CallID   string
	Answer   ToolAnswer
}
