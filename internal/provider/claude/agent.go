package claude

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Defaults of an agent's durations and limits.
const (
	DefaultHandshake = 15 * time.Second       // from the start to the answer; 0.3 s on an idle machine
	DefaultInterrupt = 250 * time.Millisecond // before an interrupt that stopped nothing is sent again
	DefaultIdleStop  = 10 * time.Minute       // a process has 156 MB and more
	DefaultMaxAlive  = 8
)

const name = "Claude Code"

// loginCommand is what a person runs when the agent is not logged in.
const loginCommand = "claude auth login"

// maxArgument is the longest argument that a process is started with, in bytes:
// everybody on the machine can read them, and long ones do not fit.
const maxArgument = 4 << 10

// serverName is under which the agent knows the frontend tools.
const serverName = "pedelec"

// instructionsFile holds the host instructions in a thread's private folder.
const instructionsFile = "claude-instructions.md"

// Agent is how Claude Code is run. Its fields may be changed before Driver.
type Agent struct {
	Handshake time.Duration
	Interrupt time.Duration
	IdleStop  time.Duration
	MaxAlive  int
}

// New returns the agent with its defaults.
func New() Agent {
	return Agent{Handshake: DefaultHandshake, Interrupt: DefaultInterrupt, IdleStop: DefaultIdleStop, MaxAlive: DefaultMaxAlive}
}

// Driver returns how the manager runs it.
func (a Agent) Driver() provider.Driver {
	return provider.Driver{
		Provider: thread.Claude,
		Programs: []string{"claude"},
		Native:   native,
		Args: []string{
			"-p", "--input-format", "stream-json", "--output-format", "stream-json",
			"--include-partial-messages", "--verbose", "--permission-prompt-tool", "stdio",
		},
		HelpArgs: []string{"--help"},
		HelpWord: "--input-format",
		Inherit: []string{ // its own, and those of the clouds that host the models
			"CLAUDE_*", "ANTHROPIC_*", "AWS_*", "GOOGLE_*", "CLOUD_ML_REGION", "VERTEX_*",
		},
		Env:              environment,
		HandshakeTimeout: a.Handshake,
		New:              func(l provider.Link) provider.Runtime { return newRuntime(a, l) },
		PerThread:        &provider.PerThread{MaxAlive: a.MaxAlive, IdleStop: a.IdleStop, Launch: launch},
	}
}

// environment keeps the agent from changing itself and from talking of itself, and
// from beginning turns that nobody asked for.
func environment(thread.Permission, func(string) string) (map[string]string, error) {
	return map[string]string{
		"DISABLE_AUTOUPDATER":                      "1",
		"DISABLE_TELEMETRY":                        "1",
		"DISABLE_ERROR_REPORTING":                  "1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS":     "1",
		"CLAUDE_CODE_DISABLE_CRON":                 "1",
		"MCP_TOOL_TIMEOUT":                         fmt.Sprint(thread.MaxToolTimeout.Milliseconds() + time.Minute.Milliseconds()), // ours comes first
	}, nil
}

// withheld are tools that need a person at a terminal, or begin turns by
// themselves.
var withheld = []string{
	"AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "EnterWorktree", "ExitWorktree",
	"CronCreate", "CronDelete", "CronList", "ScheduleWakeup", "Monitor",
}

// launch decides how a thread's process is started.
func launch(spec thread.SessionSpec) (provider.Launch, error) {
	l := provider.Launch{Dir: spec.WorkspacePath, SessionID: spec.SessionID, Spec: spec}
	resume := []string{"--resume", spec.SessionID}
	if spec.SessionID == "" {
		l.SessionID, l.Fresh = newSessionID(), true
		resume = []string{"--session-id", l.SessionID}
	}
	l.Args = append(l.Args, resume...)
	l.Args = append(l.Args, "--permission-mode", "default")
	if spec.Permission != thread.PermitFull {
		// Settings and hooks in the workspace would be rules that its page, or an
		// agent before, has made.
		l.Args = append(l.Args, "--setting-sources", "user")
	}
	l.Args = append(l.Args, "--disallowedTools", strings.Join(withheld, ","))
	if hasTools(spec) {
		l.Args = append(l.Args, "--mcp-config", `{"mcpServers":{"`+serverName+`":{"type":"sdk","name":"`+serverName+`"}}}`)
	}
	l.Args = append(l.Args, efforts(spec.EffortArgs)...)
	file, err := keepInstructions(spec)
	if err != nil {
		return l, failure(fault.ProviderRequestFailed, "instructions", "The host instructions could not be written into the workspace.", err)
	}
	if file != "" {
		l.Args = append(l.Args, "--append-system-prompt-file", file)
	}
	for _, arg := range l.Args {
		if len(arg) > maxArgument {
			return l, failure(fault.ProviderUnsupported, "start", fmt.Sprintf("An argument for %s has %d bytes; %d are allowed. Correct its effort settings.", name, len(arg), maxArgument), nil)
		}
	}
	return l, nil
}

func hasTools(spec thread.SessionSpec) bool { return spec.Skills != nil && len(spec.Skills.Tools) > 0 }

// efforts returns the pairs of an effort level that Claude Code understands.
func efforts(args []string) []string {
	var known []string
	for pair := range slices.Chunk(args, 2) {
		if len(pair) < 2 {
			break
		}
		value := strings.TrimSpace(pair[1])
		if value != "" && (pair[0] == "--model" || pair[0] == "--effort") {
			known = append(known, pair[0], value)
		}
	}
	return known
}

// keepInstructions writes the host instructions where the agent reads them when it
// starts; nobody else can. It returns "" if there are none.
func keepInstructions(spec thread.SessionSpec) (path string, err error) {
	if spec.Instructions == nil || spec.PrivateDir == nil {
		return "", nil
	}
	text := spec.Instructions(thread.ToolsNative)
	if text == "" {
		return "", nil
	}
	dir, err := spec.PrivateDir()
	if err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(dir, ".instructions-*") // 0600, and no link that stands there is followed
	if err != nil {
		return "", fmt.Errorf("write instructions: %w", err)
	}
	path = filepath.Join(dir, instructionsFile)
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return "", fmt.Errorf("write instructions: %w", err)
	}
	return path, nil
}

// newSessionID returns a random UUID.
func newSessionID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// native returns the program that npm installs beside its launcher, or "". Where
// the install script did not run, the launcher only says so.
func native(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || filepath.Base(real) != "claude.exe" || filepath.Base(filepath.Dir(filepath.Dir(real))) != "claude-code" {
		return ""
	}
	if info, err := os.Stat(real); err != nil || info.Size() > 1<<20 { // the script has put the program in its place
		return ""
	}
	system, machine, program := runtime.GOOS, strings.Replace(runtime.GOARCH, "amd64", "x64", 1), "claude"
	if system == "windows" {
		system, program = "win32", "claude.exe"
	}
	beside := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(real))), "claude-code-"+system+"-"+machine, program)
	if _, err := os.Stat(beside); err != nil {
		return ""
	}
	return beside
}
