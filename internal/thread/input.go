package thread

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Input is something that happened to a thread. The set is closed.
type Input interface{ input() }

// Requests. Caller gets exactly one [Reply], at once or later.
type (
	// Admit asks for an operation. Reply: [Admission].
	Admit struct {
		Caller      CallerID
		Kind        OperationKind
		OperationID string
		Text        string // "" for a prepare
		Leaving     bool   // the daemon shuts down: only duplicates are answered
	}
	// Cancel asks to cancel the active operation. Reply: [Cancellation].
	Cancel struct {
		Caller      CallerID
		OperationID string // "" = whichever is active
	}
	// End asks to end the thread. Reply: nil. Without a caller it is the daemon's
	// own wish.
	End struct{ Caller CallerID }
	// Resume asks to make an ended thread idle. Reply: [Snapshot].
	Resume struct{ Caller CallerID }
	// CallTool asks the page to run a frontend tool. Reply: jsontext.Value, the
	// result as the page gave it. A native call has no caller; its answer is an
	// effect.
	CallTool struct {
		Caller    CallerID
		RequestID string // for the page, if this becomes a request of its own
		CallID    string // the provider's own id of the call; "" = it has none
		Native    bool   // the runtime waits for the answer, not a caller
		Name      string
		Args      jsontext.Value // checked
		Key       ToolKey
		Timeout   time.Duration
	}
	// SubmitToolResult brings a page's answer. Reply: nil.
	SubmitToolResult struct {
		Caller    CallerID
		RequestID string
		Result    jsontext.Value
	}
	// Expire ends a thread that nobody has used for long, or deletes it if it is
	// ended, provided that it has not changed since. Reply: nil.
	Expire struct {
		Caller    CallerID
		UpdatedAt time.Time
	}
	// Stage remembers the temporary file of an upload, so that a crash does not
	// leave it behind; "" forgets it. Reply: nil.
	Stage struct {
		Caller CallerID
		Name   string // below the workspace, with slashes
	}
	// Delete asks to forget an ended thread. Reply: nil; the owner of the state
	// then removes the thread.
	Delete struct{ Caller CallerID }
)

// Results of effects.
type (
	// Attached says how opening the provider session went.
	Attached struct {
		Turn      uint64
		SessionID string
		Fresh     bool         // opened, not resumed
		Lost      *fault.Error // the recorded session could not be resumed
		Err       *fault.Error // it did not work
	}
	// Started says how handing the text to the provider went.
	Started struct {
		Turn   uint64
		Err    *fault.Error
		Unsent bool // with Err: nothing of the text was handed over
	}
	// WorkspaceChecked says whether the recorded workspace can be used.
	WorkspaceChecked struct{ Err *fault.Error }
	// BlockReserved says that deltas may use sequence numbers up to End.
	BlockReserved struct {
		Turn uint64
		End  uint64 // 0 = it could not be recorded
	}
)

// Things that happen by themselves.
type (
	// FrameArrived is something that the provider says.
	FrameArrived struct{ Frame Frame }
	// TimerFired says that an armed timer has run out.
	TimerFired struct {
		Timer Timer
		Turn  uint64 // the turn for which it was armed; 0 = none
	}
	// WatchersChanged says how many subscriptions are open.
	WatchersChanged struct {
		Count int
		Seen  bool // there were some since the last report, if only for a moment
	}
	// Delivered says that the answer to a tool call has reached its waiter.
	Delivered struct{ Waiter CallerID }
	// Doom says that the turn cannot succeed any more, for a reason of ours.
	Doom struct {
		Turn uint64
		Err  *fault.Error
	}
	// Settle is the first input of a record that an earlier daemon left behind.
	Settle struct{}
	// Shutdown says that the daemon leaves.
	Shutdown struct{}
)

func (Admit) input()            {}
func (Cancel) input()           {}
func (End) input()              {}
func (Resume) input()           {}
func (Delete) input()           {}
func (CallTool) input()         {}
func (SubmitToolResult) input() {}
func (Delivered) input()        {}
func (Stage) input()            {}
func (Expire) input()           {}
func (Attached) input()         {}
func (Started) input()          {}
func (WorkspaceChecked) input() {}
func (BlockReserved) input()    {}
func (FrameArrived) input()     {}
func (TimerFired) input()       {}
func (WatchersChanged) input()  {}
func (Doom) input()             {}
func (Settle) input()           {}
func (Shutdown) input()         {}

// Timer names one of a thread's timers. Arming one again replaces it.
type Timer uint8

// The timers.
const (
	TimerStart   Timer = iota + 1 // the provider session and the handing over of the text
	TimerSilence                  // no frame from the provider
	TimerStop                     // the provider's confirmation of a cancel or an end
	TimerSession                  // an open provider session that nobody uses
	TimerAutoEnd                  // the last subscription is gone
	TimerTool                     // the page's answer to a tool call; TimerFired.Turn is the request's ordinal
)

// CallerOf returns who waits for an answer to the input itself, or 0.
func CallerOf(in Input) CallerID {
	switch in := in.(type) {
	case Admit:
		return in.Caller
	case Cancel:
		return in.Caller
	case End:
		return in.Caller
	case Resume:
		return in.Caller
	case Delete:
		return in.Caller
	case CallTool:
		return in.Caller
	case SubmitToolResult:
		return in.Caller
	case Stage:
		return in.Caller
	case Expire:
		return in.Caller
	}
	return 0
}

// Then returns the two reports as one.
func (w WatchersChanged) Then(later WatchersChanged) WatchersChanged {
	later.Seen = later.Seen || w.Seen || w.Count > 0
	return later
}
