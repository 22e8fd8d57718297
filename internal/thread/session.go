package thread

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// SessionSpec is all that a provider runtime learns of a thread.
type SessionSpec struct {
	ThreadID      string
	Provider      Provider
	SessionID     string // provider session to resume; "" = open a fresh one
	Instructed    bool   // the host instructions were sent on SessionID
	WorkspacePath string
	PrivateDir    func() (string, error) // makes and returns <workspace>/.pedelec-runtime/threads/<ThreadID>
	EffortArgs    []string               // key, value, key, value
	Permission    Permission
	// Instructions returns the host instructions for the way in which the
	// runtime brings frontend tools to the agent; see HostInstructions.
	Instructions func(ToolChannel) string
	Skills       *tool.Skills
	Tools        ToolAccess
}

// ToolAccess is where an agent finds the frontend tools of its thread, besides its
// provider's own protocol.
type ToolAccess struct {
	MCPURL    string // of a server of the Model Context Protocol over HTTP; "" = there is none
	MCPSecret string // the bearer token that MCPURL demands
}

// ToolChannel is the way in which frontend tools reach an agent.
type ToolChannel uint8

// The channels.
const (
	ToolsByCommand ToolChannel = iota // the agent runs pedelec-cli in its shell
	ToolsNative                       // the tools are among the agent's own
)

// ToolWitness tells whether an agent announced a call in a thread's own
// conversation.
type ToolWitness interface {
	// Announced waits a short time until a turn of the conversation shows a call of
	// the tool that no other call was accepted for, and takes it. modelName is the
	// tool's name for models. Error: THREAD_ACCESS_DENIED when nothing shows.
	Announced(ctx context.Context, modelName string) error
}

// Attachment is an open provider session.
type Attachment struct {
	Conversation Conversation
	SessionID    string
	Fresh        bool         // opened, not resumed
	Lost         *fault.Error // why SessionSpec.SessionID could not be resumed; nil if it was, or none was asked for
	Witness      ToolWitness  // of calls over SessionSpec.Tools.MCPURL; nil = the agent was not told of it
}

// Conversation is an open provider session in a runtime's hands. All methods
// are safe for concurrent use.
type Conversation interface {
	// StartTurn hands the text to the provider. It returns when the text is
	// written and, where the protocol has such a frame, accepted. It refuses
	// before anything is written when a turn runs. What the provider says
	// afterwards comes through the session's Sink.
	StartTurn(ctx context.Context, t Turn) error
	// Cancel asks the provider to interrupt the turn. Confirmation is the
	// turn's terminal frame.
	Cancel(ctx context.Context, turn uint64) error
	// AnswerTool gives a native tool call its answer.
	AnswerTool(ctx context.Context, callID string, result ToolAnswer) error
	// Abandon says that the turn did not confirm its cancellation in time. A
	// runtime that serves this thread alone is stopped; on a shared one the
	// session is quarantined: its frames are dropped, and the next Attach of
	// this thread waits until its turn is over or its process is gone.
	Abandon(turn uint64)
	// Alive reports whether turns can be started on this conversation.
	Alive() bool
	// Close ends the session in the runtime, best effort.
	Close(ctx context.Context) error
}

// Turn is one text for the provider.
type Turn struct {
	ID   uint64 // our correlation; every frame of this turn carries it
	Kind OperationKind
	Text string // as the user wrote it, or the host's prepare prompt
}

// ToolAnswer is the outcome of a frontend tool call: a value, or an error.
type ToolAnswer struct {
	Result jsontext.Value
	Error  *fault.Error
}

// Sink takes what a provider says in one session. Frame never blocks.
type Sink interface {
	Frame(f Frame)
}

// FrameKind is what a provider says.
type FrameKind uint8

// The kinds of frame.
const (
	FrameActivity FrameKind = iota + 1 // something of this session moved; only resets the silence watchdog
	FrameDelta                         // Text: a fragment of an assistant message
	FrameMessage                       // Text: a complete assistant message
	FrameUsage                         // Usage
	FrameToolCall                      // Call: the agent calls a frontend tool over a native channel
	FrameFinished                      // Outcome, Err: the terminal frame of a turn, exactly one a turn
	FrameGone                          // Err: the runtime that held the session is gone
)

// Frame is one thing that a provider says about a session.
type Frame struct {
	Kind    FrameKind
	Turn    uint64 // Turn.ID it belongs to; 0 = none (usage, gone)
	Text    string
	Usage   UsageReport
	Call    ToolCall
	Outcome Outcome
	Err     *fault.Error // FrameFinished with OutcomeFailed, FrameGone
}

// UsageReport is a provider's own figure.
type UsageReport struct {
	Tokens     uint64
	Cumulative bool // counts the whole provider session; else it is one turn's share
}

// ToolCall is a native call of a frontend tool.
type ToolCall struct {
	CallID string // the provider's own id
	Name   string
	Args   jsontext.Value
}

// Outcome is how a turn ended, in the provider's words.
type Outcome uint8

// The outcomes.
const (
	OutcomeSuccess Outcome = iota + 1
	OutcomeFailed
	OutcomeCancelled
)
