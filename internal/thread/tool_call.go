package thread

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of frontend tool calls.
const (
	MaxQueuedCalls    = 16               // calls that wait behind the one that is out
	MaxToolResult     = 900 << 10        // bytes of a result, so that it fits one line
	maxToldResult     = 64 << 10         // bytes of a result that an event carries
	replayWindow      = 10 * time.Second // in which an answer that was not delivered is given again
	resubmitWindow    = 10 * time.Minute // in which the same result may be submitted again
	maxAnsweredKept   = 64               // answered requests that are remembered for resubmitWindow
	maxFinishedToKeep = 64               // finished calls that are remembered for replayWindow
)

// ToolKey identifies a tool and its arguments: equal for arguments that are equal
// as JSON.
type ToolKey [sha256.Size]byte

// Delivery tells whether an answer reached its peer. It is asked after the
// answer was written.
type Delivery interface {
	// Delivered reports whether the peer has read the answer: it closed its
	// connection cleanly or went on to use it.
	Delivered() bool
}

// toolCall is one call of a frontend tool, out or waiting its turn. It is never
// changed in place.
type toolCall struct {
	requestID string
	name      string
	args      jsontext.Value
	key       ToolKey
	callID    string // the provider's own id; "" = calls with an equal key join
	native    bool   // the runtime waits for the answer, under callID
	waiters   []CallerID
	timeout   time.Duration
	createdAt time.Time // when it went out
}

// matches reports whether another call is this one again.
func (c *toolCall) matches(in *CallTool) bool {
	if c.callID != "" || in.CallID != "" {
		return c.callID == in.CallID && c.name == in.Name
	}
	return c.key == in.Key
}

func (c *toolCall) joinedBy(caller CallerID) *toolCall {
	joined := *c
	joined.waiters = addCaller(c.waiters, caller)
	return &joined
}

// finishedCall is a call that has its answer, and the waiters of whom it is not
// known that the answer reached them.
type finishedCall struct {
	call    *toolCall
	answer  ToolAnswer
	at      time.Time
	unknown []CallerID
}

// runtimeWaits stands for the runtime among the waiters of a finished native
// call. Nobody can tell whether it has read its answer.
const runtimeWaits CallerID = 0

// answeredRequest is a request whose result was accepted.
type answeredRequest struct {
	requestID string
	result    [sha256.Size]byte
	at        time.Time
}

// broker is the frontend tool calls of a turn. Its slices are replaced, never
// changed in place.
type broker struct {
	out      *toolCall // nil = none
	queue    []*toolCall
	finished []finishedCall // oldest first
}

// pending returns the request that is out, as clients see it.
func (b *broker) pending(operation *ActiveOperation) *PendingTool {
	if b.out == nil || operation == nil {
		return nil
	}
	c := b.out
	return &PendingTool{
		RequestID: c.requestID, OperationID: operation.ID, ToolName: c.name,
		Args: c.args, CreatedAt: c.createdAt, Timeout: c.timeout,
	}
}

// replayable returns the index of a finished call that is to be answered again,
// or -1: the same call, in time, with a waiter whom the answer may not have
// reached.
func (b *broker) replayable(in *CallTool, now time.Time) int {
	return slices.IndexFunc(b.finished, func(f finishedCall) bool {
		return f.call.matches(in) && now.Sub(f.at) <= replayWindow && len(f.unknown) > 0
	})
}
