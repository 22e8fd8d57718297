package codex

import (
	"github.com/go-json-experiment/json/jsontext"
)

type initializeParams struct {
	ClientInfo   clientInfo   `json:"clientInfo"`
	Capabilities capabilities `json:"capabilities"`
}

type clientInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

// capabilities ask for the part of the protocol that has dynamic tools and
// background terminals.
type capabilities struct {
	ExperimentalAPI    bool `json:"experimentalApi"`
	RequestAttestation bool `json:"requestAttestation"`
}

type initializeResult struct {
	UserAgent string `json:"userAgent"`
}

// openParams are the params of thread/start and thread/resume. Dynamic tools are
// given at the start and remembered by the agent.
type openParams struct {
	ThreadID              string         `json:"threadId,omitzero"`
	ExcludeTurns          bool           `json:"excludeTurns,omitzero"`
	Model                 string         `json:"model,omitzero"`
	Cwd                   string         `json:"cwd"`
	ApprovalPolicy        string         `json:"approvalPolicy"`
	Sandbox               string         `json:"sandbox"`
	DeveloperInstructions string         `json:"developerInstructions,omitzero"`
	Config                map[string]any `json:"config,omitzero"`
	DynamicTools          []dynamicTool  `json:"dynamicTools,omitzero"`
}

type dynamicTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

type openResult struct {
	Thread struct {
		ID string `json:"id"`
	} `json:"thread"`
}

type threadParams struct {
	ThreadID string `json:"threadId"`
}

type turnParams struct {
	ThreadID       string        `json:"threadId"`
	Input          []inputItem   `json:"input"`
	Cwd            string        `json:"cwd"`
	Model          string        `json:"model,omitzero"`
	Effort         string        `json:"effort,omitzero"`
	ApprovalPolicy string        `json:"approvalPolicy"`
	SandboxPolicy  sandboxPolicy `json:"sandboxPolicy"`
}

type inputItem struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// sandboxPolicy is one of three; what the others have not is left out.
type sandboxPolicy struct {
	Type                string   `json:"type"`
	WritableRoots       []string `json:"writableRoots,omitzero"`
	NetworkAccess       *bool    `json:"networkAccess,omitzero"`
	ExcludeTmpdirEnvVar bool     `json:"excludeTmpdirEnvVar,omitzero"`
	ExcludeSlashTmp     bool     `json:"excludeSlashTmp,omitzero"`
}

type turnResult struct {
	Turn struct {
		ID string `json:"id"`
	} `json:"turn"`
}

type interruptParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

// notice are the members of all notifications that matter; each method has some.
type notice struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	Delta    string `json:"delta"`
	Item     item   `json:"item"`
	Turn     struct {
		ID     string     `json:"id"`
		Status string     `json:"status"`
		Items  []item     `json:"items"`
		Error  *turnError `json:"error"`
	} `json:"turn"`
	Error      *turnError `json:"error"`
	WillRetry  bool       `json:"willRetry"`
	TokenUsage struct {
		Total struct {
			TotalTokens jsontext.Value `json:"totalTokens"`
		} `json:"total"`
	} `json:"tokenUsage"`
}

type item struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	Text string `json:"text"`
}

// turnError is why a turn failed.
type turnError struct {
	Message string         `json:"message"`
	Info    jsontext.Value `json:"codexErrorInfo"` // a word, or an object with one member named by it
	Details jsontext.Value `json:"additionalDetails"`
}

// toolCallParams are the params of item/tool/call.
type toolCallParams struct {
	ThreadID  string         `json:"threadId"`
	TurnID    string         `json:"turnId"`
	CallID    string         `json:"callId"`
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
}

type toolCallResult struct {
	ContentItems []contentItem `json:"contentItems"`
	Success      bool          `json:"success"`
}

type contentItem struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type decisionResult struct {
	Decision string `json:"decision"`
}
