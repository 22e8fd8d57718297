package thread

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// EventKind is the type of an event. The numbers are stored.
type EventKind uint8

// The kinds; docs/PROTOCOL.md says what each tells.
const (
	EventCreated                  EventKind = 1
	EventStatusChanged            EventKind = 2
	EventAssistantDelta           EventKind = 3
	EventAssistantMessage         EventKind = 4
	EventToolCall                 EventKind = 5
	EventToolResult               EventKind = 6
	EventProviderSessionIDUpdated EventKind = 7
	EventUsageUpdated             EventKind = 8
	EventOperationCompleted       EventKind = 9
	EventError                    EventKind = 10
	EventEnded                    EventKind = 11
)

var eventWords = [...]string{
	EventCreated: "created", EventStatusChanged: "status_changed", EventAssistantDelta: "assistant_delta",
	EventAssistantMessage: "assistant_message", EventToolCall: "tool_call", EventToolResult: "tool_result",
	EventProviderSessionIDUpdated: "provider_session_id_updated", EventUsageUpdated: "usage_updated",
	EventOperationCompleted: "operation_completed", EventError: "error", EventEnded: "ended",
}

// String returns the wire word.
func (k EventKind) String() string { return word(eventWords[:], uint8(k)) }

// Durable reports whether events of this kind are stored before they are told.
// Only text deltas are not.
func (k EventKind) Durable() bool { return k != EventAssistantDelta }

// Event is one thing that happened to a thread, with its number. Which fields
// are set depends on Kind.
type Event struct {
	Kind        EventKind
	Seq         uint64
	OperationID string // "" = the wire carries none
	Grouped     bool   // the next event belongs to the same group: one commit, one write

	Status Status // status_changed

	Text string // assistant_delta, assistant_message
	Part Part   // assistant_message over the size of one line

	RequestID       string         // tool_call, tool_result
	ToolName        string         // tool_call, tool_result
	Args            jsontext.Value // tool_call
	Result          jsontext.Value // tool_result; nil when ResultTruncated
	ResultTruncated bool           // tool_result

	ProviderSessionID string // provider_session_id_updated
	TotalTokens       uint64 // usage_updated

	OperationKind OperationKind // operation_completed
	Success       bool          // operation_completed

	Source Provider     // error: the provider it comes from; 0 = core
	Error  *fault.Error // error, operation_completed
}

// Part says which piece of a long message this is. Count 0 = the message is
// whole.
type Part struct {
	Index int // from 0
	Count int
}
