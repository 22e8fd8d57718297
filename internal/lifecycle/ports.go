package lifecycle

import (
	"context"

	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// Store keeps threads. Its errors are *fault.Error with STORAGE_FULL,
// STORAGE_FAILED or, for an unknown thread, THREAD_NOT_FOUND.
type Store interface {
	// Commit makes one change of one thread durable, or changes nothing.
	Commit(c thread.Commit) error
	// ReserveBlock records that sequence numbers up to end may be used by
	// deltas, in a key of its own.
	ReserveBlock(threadID string, end uint64) error
	// Load reads a thread. Record.BlockEnd is the later of the record's own and
	// that of ReserveBlock.
	Load(threadID string) (thread.Loaded, error)
	// Events reads journal events with after < Seq <= through, no more than
	// about limit events or maxBytes bytes, never splitting a group. A page with
	// More has an event, so that the next call goes on behind the last one.
	// TrimmedThrough over after tells that events before the page's first were
	// removed; what is removed behind it shows in the next page.
	Events(threadID string, after, through uint64, limit, maxBytes int) (thread.JournalPage, error)
	// Operation reads an operation that the thread still remembers.
	Operation(threadID, operationID string) (op thread.Operation, found bool, err error)
	// List reads a page of summaries as stored, ordered by id.
	List(q thread.ListQuery) (thread.Page, error)
	// Unsettled returns ids of threads that an earlier daemon left in need of
	// settling, ordered, after a given one.
	Unsettled(after string, limit int) ([]string, error)
	// EndWithDaemon returns ids of threads that are not ended and cannot outlive
	// this daemon, ordered, after a given one.
	EndWithDaemon(after string, limit int) ([]string, error)
	// Delete removes a thread and all that is stored of it.
	Delete(threadID string) error
	// UsedBytes tells how large the store is.
	UsedBytes() (int64, error)
	// EndedOldestFirst lists ended threads, the one updated longest ago first.
	EndedOldestFirst(limit int) ([]thread.Summary, error)
}

// Runtimes opens provider sessions, starting the provider's program if need be.
type Runtimes interface {
	Attach(ctx context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, error)
}

// Workspaces makes and checks the folders in which agents work.
type Workspaces interface {
	// CreateManaged makes the managed workspace of a thread. undo removes it.
	CreateManaged(threadID string) (path string, undo func(), err error)
	// CreateCustom checks and makes an application's own folder and returns its
	// canonical path. With an origin it writes the marker file. One of keep and
	// undo is called when it is known whether there is a thread; undo removes what
	// this call made and nobody else relies on.
	CreateCustom(path, sdkVersion, origin string) (canonical string, keep, undo func(), err error)
	// Reopen checks a recorded workspace before a resume: it exists, is a
	// directory, is writable, is still at its canonical path, and its private
	// folder can be made. The error is WORKSPACE_OPEN_FAILED's cause.
	Reopen(path string) error
	// PrivateDir makes and returns <path>/.pedelec-runtime/threads/<threadID>.
	PrivateDir(path, threadID string) (string, error)
}

// ToolServer serves the frontend tools of a thread to its agent, for runtimes whose
// protocol has no calls of its own. Nothing of it waits.
type ToolServer interface {
	// Open makes an address for the thread's tools and the secret that goes with
	// it. A former one of the thread is void.
	Open(threadID string, skills tool.Skills) (url, secret string)
	// Admit names who can tell whether a call comes from the thread's own agent.
	// Until then, or with nil, none is accepted.
	Admit(threadID string, w thread.ToolWitness)
	// Close voids the thread's address, if it has one.
	Close(threadID string)
}

// Transfers are the uploads and downloads of threads' files.
type Transfers interface {
	// Abort voids the tickets of a thread that is about to end and stops its
	// transfers. When it returns, nothing appears in the workspace any more.
	Abort(threadID string)
	// Reopen lets transfers begin again: the end was refused, or the thread was
	// resumed.
	Reopen(threadID string)
	// Ended says that the end is durable, so that nothing need be remembered of
	// the thread.
	Ended(threadID string)
	// RemoveStaged removes the temporary file that an upload left behind when
	// the daemon died.
	RemoveStaged(workspacePath, name string) error
}

// noTransfers is the Transfers of a daemon that moves no files.
type noTransfers struct{}

func (noTransfers) Abort(string)                      {}
func (noTransfers) Reopen(string)                     {}
func (noTransfers) Ended(string)                      {}
func (noTransfers) RemoveStaged(string, string) error { return nil }

// Profiles are the parts of the settings that concern threads.
type Profiles interface {
	// EffortArgs returns the pairs of a provider's effort level, checked.
	// Errors: INVALID_INPUT, MODEL_REQUIRED.
	EffortArgs(p thread.Provider, e thread.Effort) ([]string, error)
	// Permission returns what the provider's agent may do without asking.
	Permission(p thread.Provider) thread.Permission
}
