package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// realCodex is the release that the tests were written against.
var realCodex = realAgent{
	provider: "codex",
	pkg:      "@openai/codex@0.171.0",
	launcher: "@openai/codex/bin/codex.js",
	program:  "@openai/codex-*/vendor/*/bin/codex*[!t]",
	shared:   true,
	toolName: modelName,
	shell: func(command string) string {
		quoted, _ := json.Marshal(command)
		return fmt.Sprintf(`[[tool exec_command {"cmd":%s}]]`, quoted)
	},
	codes: map[string]string{
		"400": "PROVIDER_REQUEST_FAILED", "401": "PROVIDER_AUTH_REQUIRED",
		"429": "PROVIDER_REQUEST_FAILED", "500": "PROVIDER_REQUEST_FAILED",
	},
	configure: func(s *realStage, userHome string) object {
		codexHome := filepath.Join(userHome, ".codex")
		s.mkdir(codexHome)
		config := fmt.Sprintf(`model = "test-model"
model_provider = "test"
[model_providers.test]
name = "Test"
base_url = "%s/v1"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 1
stream_max_retries = 1
[analytics]
enabled = false
`, s.model.URL)
		if err := os.WriteFile(filepath.Join(codexHome, "config.toml"), []byte(config), 0o600); err != nil {
			s.Fatal(err)
		}
		return object{"CODEX_HOME": codexHome}
	},
}.npm()

// modelName is the name under which models know one of the stage's tools.
func modelName(tool string) string {
	return thread.ModelNames([]thread.Tool{{Name: tool}}).Model[tool]
}

func TestRealCodex(t *testing.T) { realCodex.drive(t) }

func TestRealCodexLeavesNoCommand(t *testing.T) { realCodex.leavesNoCommand(t) }

// TestRealCodexSandbox shows that the agent's commands cannot write outside the
// workspace.
func TestRealCodexSandbox(t *testing.T) {
	s := newAgentStage(t, realCodex)
	th := s.thread("a", "")
	outside := filepath.Join(s.work, "outside.txt")
	th.turn("write", realCodex.shell("echo in > inside.txt; echo out > "+outside+"; echo t > $TMPDIR/t.txt && echo tmp-works"))
	if _, err := os.Stat(filepath.Join(th.ws, "inside.txt")); err != nil {
		t.Errorf("the command could not write into the workspace: %v", err)
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("the command wrote outside the workspace")
	}
	s.carries("tmp-works")
}
