package thread

import (
	"crypto/sha256"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Limits of operations.
const (
	MaxOperationIDBytes = 200
	MaxOperations       = 64       // admitted operations that a thread remembers
	MaxStoredText       = 64 << 10 // bytes of a turn's text that are kept for read_events
	SequenceBlock       = 4096     // sequence numbers that an admission reserves for deltas
)

// Record is what is stored of a thread. A restart loses nothing of it.
type Record struct {
	ID       string
	Revision uint64 // one more with each commit; tells whether a commit that reported an error took place
	Instance string // daemon instance that wrote it last

	Provider   Provider
	Effort     Effort
	EffortArgs []string // copied from the settings at creation: key, value, key, value
	Owner      string   // normalised origin; "" = nobody owns it
	Workspace  Workspace
	AutoEnd    bool // end when the last subscribed connection is gone
	CreatedAt  time.Time
	UpdatedAt  time.Time

	Status    Status
	LatestSeq uint64 // last sequence number that was told
	BlockEnd  uint64 // last number of the reserved block; 0 = none reserved

	Session  ProviderSession
	Prepared bool
	Usage    Usage

	Active        *ActiveOperation
	LastCompleted *CompletedOperation
	StagedUpload  string // workspace-relative name of an upload's temporary file; "" = none
}

// Workspace is the folder in which the agent works.
type Workspace struct {
	Path     string // canonical, absolute
	Managed  bool   // made and removed by the daemon
	Instance string // daemon instance that made it; a managed one of another instance counts as gone
}

// ProviderSession is the provider's own conversation.
type ProviderSession struct {
	ID         string // "" = none
	Resumable  bool   // a turn or prepare has succeeded on it
	Instructed bool   // the host instructions were sent on it
	UserTurn   bool   // a user turn has finished on it, so the thread counts as prepared
	UsageBase  uint64 // the thread's total when this session was opened
}

// Usage is the tokens that a thread has spent, as far as providers tell.
type Usage struct {
	Known       bool
	TotalTokens uint64 // cumulative, never falls
}

// ActiveOperation is the operation that runs.
type ActiveOperation struct {
	ID        string
	Kind      OperationKind
	StartedAt time.Time
}

// CompletedOperation is the last operation that ended.
type CompletedOperation struct {
	ID          string
	Kind        OperationKind
	Success     bool
	Error       *fault.Error // nil on success
	CompletedAt time.Time
}

// Operation is one admitted operation as it is stored under its thread.
type Operation struct {
	ID              string
	Kind            OperationKind
	Hash            TextHash
	Text            string // at most MaxStoredText bytes, cut at a code point
	TextTruncated   bool
	AlreadyPrepared bool
	AdmittedSeq     uint64 // sequence number of its status running; orders operations
	StartedAt       time.Time
	Completed       *CompletedOperation // nil while it runs
}

// TextHash identifies the text of an operation, for duplicates.
type TextHash [sha256.Size]byte

// HashText returns the hash of an operation's text.
func HashText(text string) TextHash { return sha256.Sum256([]byte(text)) }

// Admitted is what the loaded thread remembers of an operation: enough to
// answer a repeated request.
type Admitted struct {
	ID              string
	Kind            OperationKind
	Hash            TextHash
	AlreadyPrepared bool
}
