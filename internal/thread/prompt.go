package thread

import (
	"path/filepath"
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

// hostContext is the machine-readable part of the host instructions. Everything
// in it is JSON, so that no text of an application can forge the block's marks.
type hostContext struct {
	WorkspacePath string `json:"workspacePath"`
	AssetFolder   string `json:"assetFolder"`
	Guidance      string `json:"guidance"`
}

// HostInstructions returns what an agent is told once at the start of a
// provider session: who the host is, where it works, and the application's
// guidance.
func HostInstructions(workspacePath string, skills *tool.Skills) string {
	c := hostContext{
		WorkspacePath: workspacePath,
		AssetFolder:   filepath.Join(workspacePath, ".pedelec-runtime", "assets"),
	}
	if skills != nil {
		c.Guidance = skills.Guidance
	}
	block, err := json.Marshal(c, jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		// Strings always encode; without the block the agent still works.
		block = []byte("{}")
	}
	var b strings.Builder
	b.WriteString(hostIntroduction)
	b.WriteString("\n[Pedelec Host Context]\n")
	b.Write(block)
	b.WriteString("\n[/Pedelec Host Context]\n")
	return b.String()
}
