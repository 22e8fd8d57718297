package fault

// Code is the word for one kind of failure as clients see it; docs/ERRORS.md
// lists all. Message texts are free; codes are the contract.
type Code string

// The codes of the wire protocol, grouped as in the table below.
const (
	IPCUnavailable  Code = "IPC_UNAVAILABLE"
	MessageTooLarge Code = "MESSAGE_TOO_LARGE"
	IPCUnauthorized Code = "IPC_UNAUTHORIZED"
	Overloaded      Code = "OVERLOADED"
	Internal        Code = "INTERNAL"

	CoreRuntimeUnavailable Code = "CORE_RUNTIME_UNAVAILABLE"
	StorageFull            Code = "STORAGE_FULL"
	StorageFailed          Code = "STORAGE_FAILED"

	ThreadNotFound        Code = "THREAD_NOT_FOUND"
	ThreadAccessDenied    Code = "THREAD_ACCESS_DENIED"
	ThreadBusy            Code = "THREAD_BUSY"
	ThreadEnded           Code = "THREAD_ENDED"
	InvalidInput          Code = "INVALID_INPUT"
	ProviderCommandFailed Code = "PROVIDER_COMMAND_FAILED"

	OperationCancelled   Code = "OPERATION_CANCELLED"
	OperationInterrupted Code = "OPERATION_INTERRUPTED"
	PrepareAckInvalid    Code = "PREPARE_ACK_INVALID"

	WorkspacePathInvalid  Code = "WORKSPACE_PATH_INVALID"
	WorkspaceCreateFailed Code = "WORKSPACE_CREATE_FAILED"
	WorkspaceOpenFailed   Code = "WORKSPACE_OPEN_FAILED"
	DirectoryPickerFailed Code = "DIRECTORY_PICKER_FAILED"

	SettingsReadFailed         Code = "SETTINGS_READ_FAILED"
	SettingsWriteFailed        Code = "SETTINGS_WRITE_FAILED"
	DefaultProviderUnavailable Code = "DEFAULT_PROVIDER_UNAVAILABLE"
	ModelRequired              Code = "MODEL_REQUIRED"

	ToolsManifestInvalid       Code = "TOOLS_MANIFEST_INVALID"
	ToolNotFound               Code = "TOOL_NOT_FOUND"
	ToolArgsInvalid            Code = "TOOL_ARGS_INVALID"
	ToolTimeout                Code = "TOOL_TIMEOUT"
	ToolCancelled              Code = "TOOL_CANCELLED"
	ToolResultTooLarge         Code = "TOOL_RESULT_TOO_LARGE"
	PendingToolRequestExists   Code = "PENDING_TOOL_REQUEST_EXISTS"
	PendingToolRequestNotFound Code = "PENDING_TOOL_REQUEST_NOT_FOUND"

	ProviderNotAvailable        Code = "PROVIDER_NOT_AVAILABLE"
	ProviderRuntimeStartFailed  Code = "PROVIDER_RUNTIME_START_FAILED"
	ProviderRuntimeDisconnected Code = "PROVIDER_RUNTIME_DISCONNECTED"
	ProviderProtocolError       Code = "PROVIDER_PROTOCOL_ERROR"
	ProviderRequestFailed       Code = "PROVIDER_REQUEST_FAILED"
	ProviderAuthRequired        Code = "PROVIDER_AUTH_REQUIRED"
	ProviderTimeout             Code = "PROVIDER_TIMEOUT"
	ProviderSessionLost         Code = "PROVIDER_SESSION_LOST"
	ProviderUnsupported         Code = "PROVIDER_UNSUPPORTED"
	OllamaAPIKeyRequired        Code = "OLLAMA_API_KEY_REQUIRED"
	OllamaBaseURLInvalid        Code = "OLLAMA_BASE_URL_INVALID"
	OllamaUnavailable           Code = "OLLAMA_UNAVAILABLE"
	OllamaAuthFailed            Code = "OLLAMA_AUTH_FAILED"
	OllamaModelNotFound         Code = "OLLAMA_MODEL_NOT_FOUND"
	OllamaRequestFailed         Code = "OLLAMA_REQUEST_FAILED"
	OllamaResponseInvalid       Code = "OLLAMA_RESPONSE_INVALID"

	OriginNotApproved Code = "ORIGIN_NOT_APPROVED"
	ApprovalRejected  Code = "APPROVAL_REJECTED"
	ApprovalTimeout   Code = "APPROVAL_TIMEOUT"

	AssetTooLarge                Code = "ASSET_TOO_LARGE"
	AssetUploadServerUnavailable Code = "ASSET_UPLOAD_SERVER_UNAVAILABLE"
	AssetUploadTicketExpired     Code = "ASSET_UPLOAD_TICKET_EXPIRED"
	AssetUploadUnauthorized      Code = "ASSET_UPLOAD_UNAUTHORIZED"
	AssetUploadSizeMismatch      Code = "ASSET_UPLOAD_SIZE_MISMATCH"
	AssetUploadFailed            Code = "ASSET_UPLOAD_FAILED"
	AssetListFailed              Code = "ASSET_LIST_FAILED"
	AssetPathInvalid             Code = "ASSET_PATH_INVALID"
	AssetNotFound                Code = "ASSET_NOT_FOUND"
	AssetNotFile                 Code = "ASSET_NOT_FILE"
	AssetReadTooLarge            Code = "ASSET_READ_TOO_LARGE"
	AssetReadFailed              Code = "ASSET_READ_FAILED"
	AssetDownloadTicketExpired   Code = "ASSET_DOWNLOAD_TICKET_EXPIRED"
	AssetDownloadUnauthorized    Code = "ASSET_DOWNLOAD_UNAUTHORIZED"
)

// Exit statuses of the commands.
const (
	ExitDone       = 0 // the command did what it was asked
	ExitFailed     = 1 // it was tried and failed
	ExitUsage      = 2 // the command line is wrong
	ExitNotRunning = 3 // no daemon answers
)

// Info describes a code: what it means to a person, the HTTP status of an
// answer that carries it, and the exit status of a command that ends with it.
type Info struct {
	Code    Code
	Group   string
	Meaning string
	HTTP    int
	Exit    int
}

// Table lists every code once, in the order of the documentation.
var Table = []Info{
	{IPCUnavailable, "envelope", "The request cannot be understood: not JSON, a field of the wrong shape, an unknown type.", 400, ExitFailed},
	{MessageTooLarge, "envelope", "A message is larger than 1 MiB.", 413, ExitFailed},
	{IPCUnauthorized, "envelope", "The request needs a token or an origin that it did not carry.", 401, ExitFailed},
	{Overloaded, "envelope", "A bounded queue is full; try again in a moment.", 503, ExitFailed},
	{Internal, "envelope", "The daemon met a fault of its own; the log has the details.", 500, ExitFailed},

	{CoreRuntimeUnavailable, "core", "The daemon is not running or is shutting down.", 503, ExitNotRunning},
	{StorageFull, "core", "The disk has no room; nothing was recorded.", 507, ExitFailed},
	{StorageFailed, "core", "The database could not be written or read; nothing was recorded.", 500, ExitFailed},

	{ThreadNotFound, "thread", "No thread has this id.", 404, ExitFailed},
	{ThreadAccessDenied, "thread", "The thread belongs to another origin, or the stated origin is not one.", 403, ExitFailed},
	{ThreadBusy, "thread", "The thread is doing something that excludes this request.", 409, ExitFailed},
	{ThreadEnded, "thread", "The thread has ended; resume it first.", 409, ExitFailed},
	{InvalidInput, "thread", "A value of the request breaks a rule.", 400, ExitFailed},
	{ProviderCommandFailed, "thread", "The thread is in error; prepare it, or end and resume it.", 409, ExitFailed},

	{OperationCancelled, "operation", "The operation was cancelled.", 409, ExitFailed},
	{OperationInterrupted, "operation", "The daemon left or died while the operation ran.", 503, ExitFailed},
	{PrepareAckInvalid, "operation", "The agent did not acknowledge the preparation.", 502, ExitFailed},

	{WorkspacePathInvalid, "workspace", "The workspace path breaks a rule, which the message names.", 400, ExitFailed},
	{WorkspaceCreateFailed, "workspace", "The workspace could not be made.", 500, ExitFailed},
	{WorkspaceOpenFailed, "workspace", "The recorded workspace is gone or cannot be used.", 409, ExitFailed},
	{DirectoryPickerFailed, "workspace", "No folder picker is configured, or it failed.", 500, ExitFailed},

	{SettingsReadFailed, "settings", "The settings file cannot be read.", 500, ExitFailed},
	{SettingsWriteFailed, "settings", "The settings file cannot be written.", 500, ExitFailed},
	{DefaultProviderUnavailable, "settings", "The chosen default provider is not available.", 409, ExitFailed},
	{ModelRequired, "settings", "This provider needs a model in its effort settings.", 400, ExitFailed},

	{ToolsManifestInvalid, "tools", "A frontend tool's definition breaks a rule.", 400, ExitFailed},
	{ToolNotFound, "tools", "The thread has no tool of this name.", 404, ExitFailed},
	{ToolArgsInvalid, "tools", "The arguments do not fit the tool's schema.", 400, ExitFailed},
	{ToolTimeout, "tools", "The page did not answer the tool call in time.", 504, ExitFailed},
	{ToolCancelled, "tools", "The turn ended while the tool call waited.", 409, ExitFailed},
	{ToolResultTooLarge, "tools", "The tool result is larger than 900 KiB.", 413, ExitFailed},
	{PendingToolRequestExists, "tools", "Too many tool calls wait for the page.", 409, ExitFailed},
	{PendingToolRequestNotFound, "tools", "No tool call with this id waits for a result.", 404, ExitFailed},

	{ProviderNotAvailable, "provider", "The agent's program cannot be found or does not offer the protocol.", 503, ExitFailed},
	{ProviderRuntimeStartFailed, "provider", "The agent's program did not start.", 502, ExitFailed},
	{ProviderRuntimeDisconnected, "provider", "The agent's program went away during the operation.", 502, ExitFailed},
	{ProviderProtocolError, "provider", "The agent said something that makes no sense in its protocol.", 502, ExitFailed},
	{ProviderRequestFailed, "provider", "The agent answered with an error or ended the turn without success.", 502, ExitFailed},
	{ProviderAuthRequired, "provider", "The agent needs a login first.", 401, ExitFailed},
	{ProviderTimeout, "provider", "The agent was silent for too long.", 504, ExitFailed},
	{ProviderSessionLost, "provider", "The agent no longer knows the conversation; a fresh one was opened.", 409, ExitFailed},
	{ProviderUnsupported, "provider", "This provider cannot do that.", 501, ExitFailed},
	{OllamaAPIKeyRequired, "provider", "Ollama needs an API key in the settings.", 400, ExitFailed},
	{OllamaBaseURLInvalid, "provider", "The base URL of Ollama is not usable.", 400, ExitFailed},
	{OllamaUnavailable, "provider", "Ollama does not answer.", 503, ExitFailed},
	{OllamaAuthFailed, "provider", "Ollama refused the API key.", 401, ExitFailed},
	{OllamaModelNotFound, "provider", "Ollama does not have the model.", 404, ExitFailed},
	{OllamaRequestFailed, "provider", "Ollama refused the request.", 502, ExitFailed},
	{OllamaResponseInvalid, "provider", "Ollama answered with something that cannot be read.", 502, ExitFailed},

	{OriginNotApproved, "origins", "The user has not approved this origin.", 403, ExitFailed},
	{ApprovalRejected, "origins", "The user rejected this origin.", 403, ExitFailed},
	{ApprovalTimeout, "origins", "Nobody decided on the origin in time.", 504, ExitFailed},

	{AssetTooLarge, "assets", "The file is larger than 100 MiB.", 413, ExitFailed},
	{AssetUploadServerUnavailable, "assets", "The transfer server does not run, so files cannot be moved.", 503, ExitFailed},
	{AssetUploadTicketExpired, "assets", "The upload ticket is older than five minutes; make a new one.", 410, ExitFailed},
	{AssetUploadUnauthorized, "assets", "No upload ticket is open under this id and token.", 401, ExitFailed},
	{AssetUploadSizeMismatch, "assets", "The body does not have the length that the ticket was made for, or does not tell its length.", 400, ExitFailed},
	{AssetUploadFailed, "assets", "The file could not be received or stored; nothing was kept.", 400, ExitFailed},
	{AssetListFailed, "assets", "A folder of the assets could not be read.", 500, ExitFailed},
	{AssetPathInvalid, "assets", "The asset path breaks a rule, which the message names.", 400, ExitFailed},
	{AssetNotFound, "assets", "No asset has this path.", 404, ExitFailed},
	{AssetNotFile, "assets", "The path does not lead to a regular file without symbolic links.", 409, ExitFailed},
	{AssetReadTooLarge, "assets", "The asset is larger than 100 MiB and cannot be read.", 413, ExitFailed},
	{AssetReadFailed, "assets", "The asset could not be read, or is no longer what the ticket was made for.", 404, ExitFailed},
	{AssetDownloadTicketExpired, "assets", "The download ticket is older than five minutes; make a new one.", 410, ExitFailed},
	{AssetDownloadUnauthorized, "assets", "No download ticket is open under this id and token.", 401, ExitFailed},
}

var infoByCode = func() map[Code]Info {
	m := make(map[Code]Info, len(Table))
	for _, info := range Table {
		m[info.Code] = info
	}
	return m
}()

// Info returns the code's row of the table; for an unknown code, that of
// [Internal].
func (c Code) Info() Info {
	if info, ok := infoByCode[c]; ok {
		return info
	}
	return infoByCode[Internal]
}
