package ipc

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// ErrorBody is an error as it stands on the wire.
type ErrorBody struct {
	Code    fault.Code     `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitzero"`
}

// Err returns the error as our own type.
func (b *ErrorBody) Err() *fault.Error {
	return &fault.Error{Code: b.Code, Msg: b.Message, Details: b.Details}
}

// PingResult is the result of ping.
type PingResult struct {
	Connected    bool     `json:"connected"`
	Version      string   `json:"version"`
	ProcessID    int      `json:"processId"`
	InstanceID   string   `json:"instanceId"`
	Protocol     string   `json:"protocol"`
	Capabilities []string `json:"capabilities"`
	Leaving      bool     `json:"leaving,omitzero"` // it is on its way out: a start waits for its end
}

// ProviderInfo is one entry of list_providers and refresh_providers. Path and
// Version are told to the operator only.
type ProviderInfo struct {
	Name      string  `json:"name"`
	Code      string  `json:"code"`
	Available bool    `json:"available"`
	IsDefault bool    `json:"isDefault"`
	Error     *string `json:"error"`
	Path      string  `json:"path,omitzero"`
	Version   string  `json:"version,omitzero"`
}

// RuntimeList is the result of list_runtimes.
type RuntimeList struct {
	Runtimes []RuntimeInfo `json:"runtimes"`
}

// RuntimeInfo is one running provider process.
type RuntimeInfo struct {
	RuntimeID string    `json:"runtimeId"`
	Provider  string    `json:"provider"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"startedAt"`
	Sessions  int       `json:"sessions"`
	Turns     int       `json:"turns"`
	RSSBytes  int64     `json:"rssBytes,omitzero"`
}

// ThreadRef is the result of create_thread.
type ThreadRef struct {
	ThreadID string `json:"threadId"`
}

// Admission is the result of send_text and prepare_thread.
type Admission struct {
	ThreadID        string `json:"threadId"`
	OperationID     string `json:"operationId"`
	Prepared        bool   `json:"prepared,omitzero"`
	AlreadyPrepared bool   `json:"alreadyPrepared,omitzero"`
	Replayed        bool   `json:"replayed,omitzero"`
}

// Cancellation is the result of cancel_operation.
type Cancellation struct {
	ThreadID    string `json:"threadId"`
	OperationID string `json:"operationId,omitzero"`
	Cancelled   bool   `json:"cancelled"`
}

// Resumed is the result of resume_thread.
type Resumed struct {
	Snapshot Snapshot `json:"snapshot"`
}

// Subscribed is the result of subscribe_thread.
type Subscribed struct {
	Subscribed bool     `json:"subscribed"`
	Snapshot   Snapshot `json:"snapshot"`
	Replay     *Replay  `json:"replay,omitzero"`
}

// Snapshot is where a thread stands.
type Snapshot struct {
	ThreadID               string              `json:"threadId"`
	Status                 string              `json:"status"`
	LatestSeq              uint64              `json:"latestSeq"`
	Usage                  *Usage              `json:"usage,omitzero"`
	ActiveOperation        *ActiveOperation    `json:"activeOperation,omitzero"`
	LastCompletedOperation *CompletedOperation `json:"lastCompletedOperation,omitzero"`
	PendingToolRequest     *PendingToolRequest `json:"pendingToolRequest,omitzero"`
	ActiveMessage          *ActiveMessage      `json:"activeMessage,omitzero"`
}

// Usage is the tokens that a thread has spent.
type Usage struct {
	TotalTokens uint64 `json:"totalTokens"`
}

// ActiveOperation is the operation that runs.
type ActiveOperation struct {
	OperationID   string    `json:"operationId"`
	OperationKind string    `json:"operationKind"`
	StartedAt     time.Time `json:"startedAt"`
}

// CompletedOperation is the last operation that ended.
type CompletedOperation struct {
	OperationID   string     `json:"operationId"`
	OperationKind string     `json:"operationKind"`
	Success       bool       `json:"success"`
	Error         *ErrorBody `json:"error,omitzero"`
	CompletedAt   time.Time  `json:"completedAt"`
}

// PendingToolRequest is the frontend tool request that waits for a page.
type PendingToolRequest struct {
	RequestID   string         `json:"requestId"`
	ThreadID    string         `json:"threadId"`
	OperationID string         `json:"operationId"`
	ToolName    string         `json:"toolName"`
	Args        jsontext.Value `json:"args"`
	CreatedAt   time.Time      `json:"createdAt"`
	TimeoutMs   uint64         `json:"timeoutMs"`
}

// ActiveMessage is the end of a message that is still being streamed.
type ActiveMessage struct {
	Text string `json:"text"`
}

// Replay describes what a subscription with a cursor sends first.
type Replay struct {
	FromSeq       uint64 `json:"fromSeq"`
	ToSeq         uint64 `json:"toSeq"`
	Truncated     bool   `json:"truncated"`
	DeltasOmitted bool   `json:"deltasOmitted"`
}

// ThreadList is the result of list_threads. Next is "" on the last page.
type ThreadList struct {
	Threads []ThreadSummary `json:"threads"`
	Next    string          `json:"next,omitzero"`
}

// ThreadSummary is one row of list_threads.
type ThreadSummary struct {
	ThreadID      string    `json:"threadId"`
	Provider      string    `json:"provider"`
	Status        string    `json:"status"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
	OwnerOrigin   string    `json:"ownerOrigin,omitzero"`
	WorkspacePath string    `json:"workspacePath"`
	Usage         *Usage    `json:"usage,omitzero"`
}

// EventList is the result of read_events.
type EventList struct {
	Events    []Event `json:"events"`
	NextSeq   uint64  `json:"nextSeq"`
	Truncated bool    `json:"truncated"`
}

// Event is one event of a thread. Which members are set depends on Type.
type Event struct {
	Type              string         `json:"type"`
	Seq               uint64         `json:"seq"`
	ThreadID          string         `json:"threadId"`
	OperationID       string         `json:"operationId,omitzero"`
	Status            string         `json:"status,omitzero"`
	Text              string         `json:"text,omitzero"`
	Part              *Part          `json:"part,omitzero"`
	RequestID         string         `json:"requestId,omitzero"`
	ToolName          string         `json:"toolName,omitzero"`
	Args              jsontext.Value `json:"args,omitzero"`
	Result            jsontext.Value `json:"result,omitzero"`
	ResultTruncated   bool           `json:"resultTruncated,omitzero"`
	ProviderSessionID string         `json:"providerSessionId,omitzero"`
	TotalTokens       uint64         `json:"totalTokens,omitzero"`
	OperationKind     string         `json:"operationKind,omitzero"`
	Success           *bool          `json:"success,omitzero"`
	Source            string         `json:"source,omitzero"`
	Provider          string         `json:"provider,omitzero"`
	Error             *ErrorBody     `json:"error,omitzero"`

	// Message is the text that a user operation sent; read_events only.
	Message          *string `json:"message,omitzero"`
	MessageTruncated bool    `json:"messageTruncated,omitzero"`
}

// Part says which piece of a long message an assistant_message is.
type Part struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

// BackupResult is the result of backup.
type BackupResult struct {
	Bytes int64 `json:"bytes"`
}

// UploadTicket is the result of create_asset_upload. Times of assets are Unix
// milliseconds.
type UploadTicket struct {
	UploadID  string `json:"uploadId"`
	UploadURL string `json:"uploadUrl"`
	Token     string `json:"token"`
	ExpiresAt int64  `json:"expiresAt"`
}

// DownloadTicket is the result of create_asset_download.
type DownloadTicket struct {
	DownloadID  string `json:"downloadId"`
	DownloadURL string `json:"downloadUrl"`
	Token       string `json:"token"`
	Path        string `json:"path"`
	Name        string `json:"name"`
	SizeBytes   int64  `json:"sizeBytes"`
	ModifiedAt  int64  `json:"modifiedAt"`
	MimeType    string `json:"mimeType"`
	ExpiresAt   int64  `json:"expiresAt"`
}

// AssetList is the result of list_assets.
type AssetList struct {
	Assets    []Asset `json:"assets"`
	Truncated bool    `json:"truncated,omitzero"`
}

// Asset is one file.
type Asset struct {
	Name       string `json:"name"`
	Path       string `json:"path"`
	SizeBytes  int64  `json:"sizeBytes"`
	ModifiedAt int64  `json:"modifiedAt"`
}

// OriginList is the result of list_origins.
type OriginList struct {
	Origins []OriginInfo `json:"origins"`
}

// OriginInfo is a web origin that is decided about, waits for a decision, or is
// connected. Decision is approved, rejected or undecided; DecidedAt is nil when
// the user did not decide.
type OriginInfo struct {
	Origin      string     `json:"origin"`
	Decision    string     `json:"decision"`
	DecidedAt   *time.Time `json:"decidedAt,omitzero"`
	BySettings  bool       `json:"bySettings,omitzero"` // allowedOrigins approves it
	Waiting     int        `json:"waiting"`             // requests for an approval
	Connections int        `json:"connections"`
}
