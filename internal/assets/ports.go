package assets

import (
	"context"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// Info is what an asset request has to know of a thread.
type Info struct {
	Owner     string // normalised origin; "" = nobody owns it
	Workspace string // canonical path of the workspace
	Status    thread.Status
}

// Threads is what this package needs of the threads.
type Threads interface {
	// Thread authorises a caller and describes the thread. Errors:
	// THREAD_NOT_FOUND, THREAD_ACCESS_DENIED, both with details {threadId}.
	Thread(ctx context.Context, c thread.Caller, threadID string) (Info, error)
	// Stage remembers in the thread's record the temporary file of an upload, as
	// a path below the workspace with slashes; "" forgets it. It is durable
	// before it returns. A thread has one such file at most.
	//
	// It returns as soon as ctx ends, also while the thread itself waits for
	// Abort; whether the name was recorded then does not matter. Forgetting must
	// be possible in every status: when the end of the thread cut the upload
	// off, it is asked for after Abort has returned.
	Stage(ctx context.Context, threadID, name string) error
}
