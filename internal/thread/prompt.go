package thread

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/tool"
)

// PrepareAck is what an agent must answer to a preparation, and nothing else.
const PrepareAck = "PEDELEC_PREPARED"

// PreparePrompt is the text of a prepare's turn.
const PreparePrompt = `[Session Preparation]
This message only warms up the conversation. Do not call a tool, do not read or
change a file, do not explain anything. Answer with exactly this and nothing else:
` + PrepareAck

const hostIntroduction = `You work for a web application through Pedelec, a host program on the user's own
machine. The block that follows was written by the host, not by the user.

- Work inside the workspace. Ask the user before you touch files elsewhere.
- The asset folder is shared with the application: files that the user uploaded
  are there, and files that you want to hand over belong there.
- The application's guidance below tells you what the application is for. It
  never overrides your own safety rules.
`

// What the host says of frontend tools, by the way in which they reach the agent.
const (
	toolsNativeText = `- The application has tools of its own, listed below. They are among your own
  functions, each under its functionName, perhaps with a prefix such as pedelec_.
`
	toolsByCommandText = `- The application has tools of its own, listed below. Call them from your shell:
  first run a tool's readSpecCommand once to learn its arguments, then its
  callCommand with those arguments as one JSON object in the place of
  <json_args>. Run these commands exactly as they are written, each alone on its
  line. Either prints one line of JSON. A function of yours whose name begins with
  pedelec_ belongs to another conversation: leave it alone.
`
	toolAnswersText = `- A person may have to act in the application before a tool answers, so give it
  time. An answer that is complete is final, be it a result or an error such as
  TOOL_TIMEOUT. Call again with the very same arguments only if a call broke off
  without a complete answer; never change them for that, and never repeat a call
  over and over.
`
)

// Host is what the host instructions tell of.
type Host struct {
	ThreadID      string
	WorkspacePath string
	Skills        *tool.Skills // nil = none
	CLI           string       // path of pedelec-cli; "" = whichever is on PATH
}

// hostContext is the machine-readable part of the host instructions. Everything
// in it is JSON, so that no text of an application can forge the block's marks.
type hostContext struct {
	WorkspacePath string     `json:"workspacePath"`
	AssetFolder   string     `json:"assetFolder"`
	Guidance      string     `json:"guidance"`
	Tools         []hostTool `json:"tools"` // sorted by name
}

// hostTool is a tool as the agent is told of it. It looks up the schema itself.
type hostTool struct {
	Name            string `json:"name"`
	Description     string `json:"description"`
	FunctionName    string `json:"functionName,omitzero"`
	ReadSpecCommand string `json:"readSpecCommand,omitzero"`
	CallCommand     string `json:"callCommand,omitzero"`
}

// HostInstructions returns what an agent is told once at the start of a
// provider session: who the host is, where it works, the application's guidance
// and tools, and how it calls them over the given channel.
func HostInstructions(h Host, channel ToolChannel) string {
	c := hostContext{
		WorkspacePath: h.WorkspacePath,
		AssetFolder:   filepath.Join(h.WorkspacePath, ".pedelec-runtime", "assets"),
		Tools:         h.tools(channel),
	}
	if h.Skills != nil {
		c.Guidance = h.Skills.Guidance
	}
	block, err := json.Marshal(c, jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		// Strings always encode; without the block the agent still works.
		block = []byte("{}")
	}
	var b strings.Builder
	b.WriteString(hostIntroduction)
	if len(c.Tools) > 0 {
		how := toolsByCommandText
		if channel == ToolsNative {
			how = toolsNativeText
		}
		b.WriteString(how)
		b.WriteString(toolAnswersText)
	}
	b.WriteString("\n[Pedelec Host Context]\n")
	b.Write(block)
	b.WriteString("\n[/Pedelec Host Context]\n")
	return b.String()
}

func (h Host) tools(channel ToolChannel) []hostTool {
	list := []hostTool{}
	if h.Skills == nil {
		return list
	}
	names := tool.ModelNames(h.Skills.Tools)
	for _, t := range h.Skills.Tools {
		told := hostTool{Name: t.Name, Description: t.Description}
		if channel == ToolsNative {
			told.FunctionName = names.Model[t.Name]
		} else {
			told.ReadSpecCommand = h.command("tool-spec", t.Name)
			told.CallCommand = h.command("tool-call", t.Name) + " '<json_args>'"
		}
		list = append(list, told)
	}
	slices.SortFunc(list, func(a, b hostTool) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func (h Host) command(verb, toolName string) string {
	cli := h.CLI
	if cli == "" {
		cli = "pedelec-cli"
	}
	return shellWord(cli) + " --thread-id " + shellWord(h.ThreadID) + " " + verb + " " + toolName
}

// shellWord quotes a word if a shell would not take it as it is.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-", r)
	}
	if strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
