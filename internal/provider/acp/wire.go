package acp

import (
	"github.com/go-json-experiment/json/jsontext"
)

// protocolVersion is the version of ACP that we speak.
const protocolVersion = 1

type initializeParams struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities clientCapabilities `json:"clientCapabilities"`
	ClientInfo         clientInfo         `json:"clientInfo"`
}

// clientCapabilities says explicitly that there is no file system and no terminal
// on our side; an agent that is not told may ask.
type clientCapabilities struct {
	FS       fsCapabilities  `json:"fs"`
	Terminal bool            `json:"terminal"`
	Meta     map[string]bool `json:"_meta,omitzero"`
}

type fsCapabilities struct {
	ReadTextFile  bool `json:"readTextFile"`
	WriteTextFile bool `json:"writeTextFile"`
}

type clientInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

type initializeResult struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities agentCapabilities `json:"agentCapabilities"`
	AuthMethods       []authMethod      `json:"authMethods"`
	AgentInfo         struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"agentInfo"`
}

type agentCapabilities struct {
	LoadSession         bool `json:"loadSession"`
	SessionCapabilities struct {
		Close  jsontext.Value `json:"close"` // an object means yes
		Resume jsontext.Value `json:"resume"`
	} `json:"sessionCapabilities"`
	MCP struct {
		HTTP jsontext.Value `json:"http"`
	} `json:"mcpCapabilities"`
}

func (c agentCapabilities) canClose() bool  { return granted(c.SessionCapabilities.Close) }
func (c agentCapabilities) canResume() bool { return granted(c.SessionCapabilities.Resume) }
func (c agentCapabilities) canMCP() bool    { return granted(c.MCP.HTTP) }

// granted reads a capability, which is an object, or true in some agents.
func granted(v jsontext.Value) bool {
	return v.Kind() == '{' || v.Kind() == 't'
}

type authMethod struct {
	ID string `json:"id"`
}

type authenticateParams struct {
	MethodID string `json:"methodId"`
}

type newSessionParams struct {
	CWD        string      `json:"cwd"`
	MCPServers []mcpServer `json:"mcpServers"`
}

type openSessionParams struct {
	SessionID  string      `json:"sessionId"`
	CWD        string      `json:"cwd"`
	MCPServers []mcpServer `json:"mcpServers"`
}

type sessionParams struct {
	SessionID string `json:"sessionId"`
}

// sessionState is what new, load and resume answer; the latter two may answer
// null.
type sessionState struct {
	SessionID     string         `json:"sessionId"`
	ConfigOptions []configOption `json:"configOptions"`
	Modes         sessionModes   `json:"modes"`
}

type sessionModes struct {
	Current   string        `json:"currentModeId"`
	Available []sessionMode `json:"availableModes"`
}

type sessionMode struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type configOption struct {
	ID       string         `json:"id"`
	Category string         `json:"category"`
	Current  jsontext.Value `json:"currentValue"` // a string, or a boolean
	Options  []optionValue  `json:"options"`
}

// optionValue is a value, or a group of values.
type optionValue struct {
	Value   string        `json:"value"`
	Name    string        `json:"name"`
	Options []optionValue `json:"options"`
}

type setModeParams struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

type setOptionParams struct {
	SessionID string `json:"sessionId"`
	ConfigID  string `json:"configId"`
	Value     string `json:"value"`
}

type setOptionResult struct {
	ConfigOptions []configOption `json:"configOptions"` // all of them, anew
}

type promptParams struct {
	SessionID string        `json:"sessionId"`
	Prompt    []promptBlock `json:"prompt"`
}

type promptBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type promptResult struct {
	StopReason jsontext.Value `json:"stopReason"`
	Usage      struct {
		TotalTokens jsontext.Value `json:"totalTokens"`
	} `json:"usage"`
}

type permissionParams struct {
	SessionID string             `json:"sessionId"`
	ToolCall  toolCall           `json:"toolCall"`
	Options   []permissionOption `json:"options"`
}

type toolCall struct {
	Title     string         `json:"title"`
	Kind      string         `json:"kind"`
	RawInput  jsontext.Value `json:"rawInput"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
	Content []struct {
		Path string `json:"path"` // of a diff
	} `json:"content"`
}

type permissionOption struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

type outcomeResult struct {
	Outcome outcome `json:"outcome"`
}

type outcome struct {
	Outcome  string `json:"outcome"`
	OptionID string `json:"optionId,omitzero"`
	Reason   string `json:"reason,omitzero"`
}
