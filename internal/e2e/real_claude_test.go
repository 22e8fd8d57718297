package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
)

// realClaude is the release that the tests were written against.
var realClaude = realAgent{
	provider: "claude",
	pkg:      "@anthropic-ai/claude-code@2.1.332",
	launcher: "@anthropic-ai/claude-code/bin/claude.exe",
	program:  "@anthropic-ai/claude-code-*/claude*",
	toolName: func(tool string) string { return "mcp__pedelec__" + modelName(tool) },
	shell: func(command string) string {
		quoted, _ := json.Marshal(command)
		return fmt.Sprintf(`[[tool Bash {"command":%s,"description":"run it"}]]`, quoted)
	},
	codes: map[string]string{
		"400": "PROVIDER_REQUEST_FAILED", "401": "PROVIDER_AUTH_REQUIRED",
		"429": "PROVIDER_REQUEST_FAILED", "500": "PROVIDER_REQUEST_FAILED",
	},
	configure: func(s *realStage, userHome string) object {
		return object{
			"CLAUDE_CONFIG_DIR": filepath.Join(userHome, ".claude"), "ANTHROPIC_BASE_URL": s.model.URL, "ANTHROPIC_API_KEY": "none",
			"CLAUDE_CODE_MAX_RETRIES": "1",
		}
	},
}.npm()

func TestRealClaude(t *testing.T) { realClaude.drive(t) }

func TestRealClaudeLeavesNoCommand(t *testing.T) { realClaude.leavesNoCommand(t) }

// TestRealClaudePermissions shows that the agent's questions are answered by our
// policy: files in the workspace, nothing outside, no command.
func TestRealClaudePermissions(t *testing.T) {
	s := newAgentStage(t, realClaude)
	th := s.thread("a", "")
	inside, outside := filepath.Join(th.ws, "inside.txt"), filepath.Join(s.work, "outside.txt")
	write := func(op, path string) {
		quoted, _ := json.Marshal(path)
		th.turn(op, fmt.Sprintf(`[[tool Write {"file_path":%s,"content":"hi"}]]`, quoted))
	}
	write("in", inside)
	if _, err := os.Stat(inside); err != nil {
		t.Errorf("the agent could not write into the workspace: %v", err)
	}
	write("out", outside)
	if _, err := os.Stat(outside); err == nil {
		t.Error("the agent wrote outside the workspace")
	}
	th.turn("command", realClaude.shell("touch made.txt"))
	if _, err := os.Stat(filepath.Join(th.ws, "made.txt")); err == nil {
		t.Error("the agent ran a command")
	}
	s.carries("do not allow this")
}
