package thread

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/tool"
)

// Caller is who sends a request, as far as the transport knows.
type Caller struct {
	// Origin is the normalised web origin; "" when none was stated or it is not
	// a valid one (see OriginStated).
	Origin string
	// OriginStated is true when the request named an origin, valid or not.
	OriginStated bool
	// OriginVerified is true when a WebSocket handshake proved the origin. Such
	// a caller acts only on threads that it owns.
	OriginVerified bool
	// Token is true when the request carried the daemon's token.
	Token bool
	// SDKVersion is what the SDK says of itself, trimmed; "" = nothing.
	SDKVersion string
}

// Operator reports whether the caller is the user's own tool: it holds the
// token and speaks for no web page.
func (c Caller) Operator() bool { return c.Token && !c.OriginStated }

// MayActOn reports whether the caller may act on a thread with this
// owner.
func (c Caller) MayActOn(owner string) bool {
	if c.Operator() {
		return true
	}
	if owner == "" {
		return !c.OriginVerified
	}
	return c.Origin == owner
}

// CreateRequest is the payload of create_thread.
type CreateRequest struct {
	Provider      Provider
	Effort        Effort       // 0 = default
	Skills        *tool.Skills // nil = none
	WorkspacePath *string      // nil = a managed workspace
	AutoEnd       bool
}

// Admission is the answer to prepare_thread and send_text.
type Admission struct {
	OperationID     string
	AlreadyPrepared bool // prepare only
	Replayed        bool // the operation had been admitted before
}

// Cancellation is the answer to cancel_operation.
type Cancellation struct {
	OperationID string // "" = nothing ran and none was named
	Cancelled   bool
}

// ListQuery selects threads, ordered by id.
type ListQuery struct {
	Status Status // 0 = any
	Owner  string // "" = any
	Limit  int    // at most MaxListLimit; 0 = DefaultListLimit
	After  string // the last id of the page before; "" = from the start
}

// Limits of list_threads and read_events.
const (
	DefaultListLimit = 100
	MaxListLimit     = 1000
)

// ClampLimit returns the limit that counts for one that was asked for; 0 or less
// asks for none.
func ClampLimit(limit int) int {
	if limit <= 0 {
		return DefaultListLimit
	}
	return min(limit, MaxListLimit)
}

// Page is one page of a list of threads. Next is "" on the last one.
type Page struct {
	Threads []Summary
	Next    string
}

// EventPage is one page of the journal.
type EventPage struct {
	Events    []JournalEvent
	NextSeq   uint64 // value for the next AfterSeq
	Truncated bool   // events before the first one were trimmed
}

// JournalEvent is an event read back, with the text that a user operation sent
// where it is still known.
type JournalEvent struct {
	Event
	Message          *string // status running of a user operation
	MessageTruncated bool    // the text was longer than MaxStoredText; Message holds its start
}

// ToolRequest is an agent's call of a frontend tool.
type ToolRequest struct {
	ThreadID string
	CallID   string // the provider's own id of the call; "" = it has none
	Name     string
	Args     jsontext.Value
	Delivery Delivery // tells later whether the answer arrived; nil = nobody knows
}
