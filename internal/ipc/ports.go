package ipc

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// Threads is the service behind every request that names a thread. It
// authorises, answers duplicates and checks, in the order of docs/PROTOCOL.md.
// Errors are *fault.Error.
type Threads interface {
	Create(ctx context.Context, c thread.Caller, r thread.CreateRequest) (threadID string, err error)
	// Subscribe takes snapshot and cut. wake has room for one and is signalled,
	// never blocked on, when the feed has something to take.
	Subscribe(ctx context.Context, c thread.Caller, threadID string, afterSeq *uint64, wake chan<- struct{}) (thread.Feed, error)
	Snapshot(ctx context.Context, c thread.Caller, threadID string) (thread.Snapshot, error)
	Prepare(ctx context.Context, c thread.Caller, threadID string, operationID *string) (thread.Admission, error)
	SendText(ctx context.Context, c thread.Caller, threadID, message string, operationID *string) (thread.Admission, error)
	Cancel(ctx context.Context, c thread.Caller, threadID string, operationID *string) (thread.Cancellation, error)
	// End returns when the thread is ended and its events were written to every
	// live feed, or a second after that at the latest.
	End(ctx context.Context, c thread.Caller, threadID string) error
	Resume(ctx context.Context, c thread.Caller, threadID string) (thread.Snapshot, error)
	Delete(ctx context.Context, c thread.Caller, threadID string) error
	// CallTool returns the page's result of a frontend tool call.
	CallTool(ctx context.Context, r thread.ToolRequest) (jsontext.Value, error)
	ToolSpec(ctx context.Context, threadID, toolName string) (thread.Tool, error)
	SubmitToolResult(ctx context.Context, c thread.Caller, threadID, requestID string, result jsontext.Value) error
	List(ctx context.Context, c thread.Caller, q thread.ListQuery) (thread.Page, error)
	ReadEvents(ctx context.Context, c thread.Caller, threadID string, afterSeq uint64, limit int) (thread.EventPage, error)
}

// Providers tells which agents can be used.
type Providers interface {
	// List waits for the first scan, at most 15 s, and then tells what is known.
	List(ctx context.Context) []thread.ProviderStatus
	// Refresh probes again and waits for the result.
	Refresh(ctx context.Context) []thread.ProviderStatus
	Runtimes() []thread.RuntimeInfo
}

// Settings is the part of the settings that clients see or change.
type Settings interface {
	// DefaultProvider returns a provider code, "" for none. Error:
	// SETTINGS_READ_FAILED with details {path, error}.
	DefaultProvider() (string, error)
	// Update checks and writes settings in the shape of the file and returns
	// them as they are now.
	Update(ctx context.Context, update jsontext.Value) (jsontext.Value, error)
	// RequireToken tells whether every request must carry the token.
	RequireToken() bool
	// AllowedOrigins returns the web origins whose pages may act without being
	// asked about.
	AllowedOrigins() []string
}

// OriginStore keeps what the user decided about web origins. Errors are
// *fault.Error with a storage code.
type OriginStore interface {
	All() (map[string][]byte, error)
	// Put and Delete return when the change is durable.
	Put(origin string, value []byte) error
	Delete(origin string) error
}

// Picker asks the user for a folder.
type Picker interface {
	// Pick returns "" when the user cancels. Error: DIRECTORY_PICKER_FAILED.
	Pick(ctx context.Context) (path string, err error)
}

// Operator is what only the user's own tools may ask for.
type Operator interface {
	// Backup writes a consistent copy of the database to a new file.
	Backup(ctx context.Context, path string) (bytes int64, err error)
	// Shutdown begins a clean shutdown and returns at once.
	Shutdown()
}

// AssetUpload is what create_asset_upload asks for.
type AssetUpload struct {
	ThreadID   string
	Filename   string
	SizeBytes  uint64
	TargetPath *string // public path; nil = the daemon chooses
}

// Assets makes tickets for files, and lists them. Errors are *fault.Error: those
// of Threads about the thread and its caller, and the ASSET_ codes.
type Assets interface {
	CreateUpload(ctx context.Context, c thread.Caller, r AssetUpload) (UploadTicket, error)
	CreateDownload(ctx context.Context, c thread.Caller, threadID, path string) (DownloadTicket, error)
	// List returns what fits one line.
	List(ctx context.Context, c thread.Caller, threadID string) (AssetList, error)
}
