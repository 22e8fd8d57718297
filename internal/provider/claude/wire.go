package claude

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// userLine is a text of the user.
type userLine struct {
	Type    string      `json:"type"`
	Message userMessage `json:"message"`
}

type userMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// controlLine asks the agent something beside its conversation.
type controlLine struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	Request   any    `json:"request"`
}

type initializeRequest struct {
	Subtype       string         `json:"subtype"`
	Hooks         jsontext.Value `json:"hooks"`
	SDKMCPServers []string       `json:"sdkMcpServers,omitzero"`
}

type plainRequest struct {
	Subtype string `json:"subtype"`
}

// answerLine answers what the agent asks.
type answerLine struct {
	Type     string `json:"type"`
	Response answer `json:"response"`
}

type answer struct {
	Subtype   string `json:"subtype"` // success or error
	RequestID string `json:"request_id"`
	Response  any    `json:"response,omitzero"`
	Error     string `json:"error,omitzero"`
}

// line is what the agent prints; each type has some of the members.
type line struct {
	Type            string         `json:"type"`
	Subtype         string         `json:"subtype"`
	ParentToolUseID jsontext.Value `json:"parent_tool_use_id"` // a string in what a sub-agent says

	Event   event          `json:"event"`   // stream_event
	Message jsontext.Value `json:"message"` // assistant
	Error   jsontext.Value `json:"error"`   // assistant: a word, when the model could not be asked

	RequestID string         `json:"request_id"` // control_request, control_cancel_request
	Request   jsontext.Value `json:"request"`    // control_request
	Response  controlAnswer  `json:"response"`   // control_response

	result
}

// event is one of the model's own stream.
type event struct {
	Type    string `json:"type"`
	Message struct {
		ID string `json:"id"`
	} `json:"message"`
	Delta struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"delta"`
}

type assistantMessage struct {
	ID      string `json:"id"`
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

type controlAnswer struct {
	Subtype   string `json:"subtype"`
	RequestID string `json:"request_id"`
	Error     string `json:"error"`
}

// result is the end of a turn.
type result struct {
	IsError        bool           `json:"is_error"`
	TerminalReason jsontext.Value `json:"terminal_reason"`
	APIErrorStatus jsontext.Value `json:"api_error_status"`
	APIErrorType   jsontext.Value `json:"api_error_type"`
	Result         jsontext.Value `json:"result"`
	Errors         jsontext.Value `json:"errors"` // texts

	Usage      jsontext.Value `json:"usage"`
	ModelUsage jsontext.Value `json:"modelUsage"`
	SinceLast  jsontext.Value `json:"model_usage_since_last_result"` // absent before release 2.1.332
}

// complaints returns what the agent says went wrong.
func (r *result) complaints() []string {
	var texts []string
	if jsonrpc.Unmarshal(r.Errors, &texts) != nil {
		return nil
	}
	return texts
}

type usageCount struct {
	Input       uint64 `json:"input_tokens"`
	Output      uint64 `json:"output_tokens"`
	CacheRead   uint64 `json:"cache_read_input_tokens"`
	CacheCreate uint64 `json:"cache_creation_input_tokens"`
}

type modelUsage struct {
	Input       uint64 `json:"inputTokens"`
	Output      uint64 `json:"outputTokens"`
	CacheRead   uint64 `json:"cacheReadInputTokens"`
	CacheCreate uint64 `json:"cacheCreationInputTokens"`
}

// question is a control request of the agent.
type question struct {
	Subtype    string         `json:"subtype"`
	ToolName   string         `json:"tool_name"`   // can_use_tool
	Input      jsontext.Value `json:"input"`       // can_use_tool
	ServerName string         `json:"server_name"` // mcp_message
	Message    jsontext.Value `json:"message"`     // mcp_message
}

// permissionAnswer answers can_use_tool.
type permissionAnswer struct {
	Behavior     string         `json:"behavior"`
	UpdatedInput jsontext.Value `json:"updatedInput,omitzero"`
	Message      string         `json:"message,omitzero"`
}

// mcpAnswer answers mcp_message.
type mcpAnswer struct {
	Response mcpResponse `json:"mcp_response"`
}

type mcpResponse struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Result  any            `json:"result,omitzero"`
	Error   *mcpError      `json:"error,omitzero"`
}

type mcpError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type mcpInitialize struct {
	ProtocolVersion string       `json:"protocolVersion"`
	Capabilities    mcpTools     `json:"capabilities"`
	ServerInfo      mcpServerTag `json:"serverInfo"`
}

type mcpTools struct {
	Tools struct{} `json:"tools"`
}

type mcpServerTag struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type mcpToolList struct {
	Tools []mcpTool `json:"tools"`
}

type mcpTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

type mcpToolResult struct {
	Content []mcpContent `json:"content"`
	IsError bool         `json:"isError"`
}

type mcpContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}
