package thread

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxActiveMessage is how much of an unfinished message a snapshot carries, in
// bytes.
const MaxActiveMessage = 64 << 10

// Snapshot tells a client where a thread stands.
type Snapshot struct {
	ThreadID      string
	Status        Status
	LatestSeq     uint64
	Usage         Usage
	Active        *ActiveOperation
	LastCompleted *CompletedOperation
	PendingTool   *PendingTool
	ActiveMessage string // the last MaxActiveMessage bytes of an unfinished message; "" = none
}

// PendingTool is the frontend tool request that is out.
type PendingTool struct {
	RequestID   string
	OperationID string
	ToolName    string
	Args        jsontext.Value
	CreatedAt   time.Time
	Timeout     time.Duration
}

// Replay describes what a subscription with a cursor sends before live events.
type Replay struct {
	FromSeq       uint64 // the cursor plus one
	ToSeq         uint64 // the snapshot's LatestSeq
	Truncated     bool   // the journal does not reach back to FromSeq
	DeltasOmitted bool   // text deltas in the range are not repeated
}

// Summary is one row of a list of threads.
type Summary struct {
	ThreadID      string
	Provider      Provider
	Status        Status
	CreatedAt     time.Time
	UpdatedAt     time.Time
	Owner         string
	WorkspacePath string
	Usage         Usage
}
