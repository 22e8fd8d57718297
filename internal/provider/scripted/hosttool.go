package scripted

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Marks of the part of the host's instructions that is JSON.
const (
	contextBegin = "[Pedelec Host Context]\n"
	contextEnd   = "\n[/Pedelec Host Context]"
)

// argsPlace is where a call's arguments go in its command.
const argsPlace = "'<json_args>'"

// hostTool is a tool of the application, as the host's instructions tell of it.
type hostTool struct {
	Name            string `json:"name"`
	FunctionName    string `json:"functionName,omitzero"`
	ReadSpecCommand string `json:"readSpecCommand,omitzero"`
	CallCommand     string `json:"callCommand,omitzero"`
}

// hostTools returns the tools that instructions tell of.
func hostTools(instructions string) []hostTool {
	_, rest, ok := strings.Cut(instructions, contextBegin)
	if !ok {
		return nil
	}
	block, _, ok := strings.Cut(rest, contextEnd)
	var c struct {
		Tools []hostTool `json:"tools"`
	}
	if !ok || json.Unmarshal([]byte(block), &c) != nil {
		return nil
	}
	return c.Tools
}

// tool returns the tool of this name that the instructions told of.
func (s *session) tool(name string) (hostTool, bool) {
	i := slices.IndexFunc(s.tools, func(t hostTool) bool { return t.Name == name })
	if i < 0 {
		return hostTool{}, false
	}
	return s.tools[i], true
}

// callByCommand runs the command by which the instructions say a tool is called.
func (t *turn) callByCommand(name string, args jsontext.Value) error {
	told, _ := t.s.tool(name)
	return t.runCommand(name, strings.Replace(told.CallCommand, argsPlace, quoted(string(args)), 1))
}

// readSpec runs the command by which the instructions say a tool is looked up.
func (t *turn) readSpec(name string) error {
	told, _ := t.s.tool(name)
	return t.runCommand(name, told.ReadSpecCommand)
}

// outputPatience is how long a command that was cancelled may keep its output open.
const outputPatience = time.Second

// runCommand runs a line in a shell, as other agents do, and says what it printed.
func (t *turn) runCommand(name, line string) error {
	if line == "" {
		return t.message("tool error: the instructions tell no command for " + name)
	}
	input, err := json.Marshal(object{"command": line})
	if err != nil {
		return err
	}
	c := t.newCall(name, nil)
	t.showCall(c, line, "execute", input)
	program, args := shell(line)
	cmd := exec.CommandContext(t.ctx, program, args...)
	startOwnSession(cmd)
	cmd.Cancel = func() error { return killOwnSession(cmd) }
	cmd.Env, cmd.Dir, cmd.WaitDelay = t.a.env, t.s.cwd, outputPatience
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	if t.ctx.Err() != nil {
		return errCancelled
	}
	printed := strings.TrimSpace(out.String())
	t.endCall(c.id, printed, err != nil)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return t.message("tool error: " + exit.Error() + ": " + strings.TrimSpace(complaint.String()))
	case err != nil:
		return t.message("tool error: " + err.Error())
	}
	return t.message(printed)
}

// quoted makes a text one word for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
