package inspect

import (
	"context"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// Threads is what is read of threads. Errors are *fault.Error.
type Threads interface {
	List(ctx context.Context, c thread.Caller, q thread.ListQuery) (thread.Page, error)
	Snapshot(ctx context.Context, c thread.Caller, threadID string) (thread.Snapshot, error)
	ReadEvents(ctx context.Context, c thread.Caller, threadID string, afterSeq uint64, limit int) (thread.EventPage, error)
}

// Runtimes tells which agents run.
type Runtimes interface {
	Runtimes() []thread.RuntimeInfo
}

// Encoding appends values as clients know them from the wire protocol, each one
// JSON object without a line break.
type Encoding struct {
	Snapshot func(dst []byte, s *thread.Snapshot) []byte
	Summary  func(dst []byte, s *thread.Summary) []byte
	Event    func(dst []byte, threadID string, ev *thread.JournalEvent) []byte
	Runtime  func(dst []byte, r *thread.RuntimeInfo) []byte
}
