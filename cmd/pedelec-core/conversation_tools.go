package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// toolHandlerError is the code of a result that says the handler failed; pages
// use the same.
const toolHandlerError = "TOOL_HANDLER_ERROR"

// maxToolOutput bounds what is taken of a command's output. The daemon takes
// less; that it says itself.
const maxToolOutput = 1<<20 - 4<<10

// openCall is a call of a frontend tool that nobody has answered yet.
type openCall struct {
	requestID string
	tool      string
	asked     bool               // the person at the terminal is to answer it
	stop      context.CancelFunc // ends the command that answers it; nil = none runs
}

// toolOutput is what a command answered to a call.
type toolOutput struct {
	requestID string
	result    jsontext.Value
}

// takeTool notices a call, and its end by another answer or by time.
func (v *conversation) takeTool(ctx context.Context, ev ipc.Event) {
	switch {
	case ev.Type == "tool_call":
		v.beginCall(ctx, ev)
	case v.call != nil && ev.Type == "status_changed" && ev.Status != thread.WaitingToolResult.String():
		fmt.Fprintf(v.notes, "The call of %s is over: it was answered elsewhere, or took too long.\n", v.call.tool)
		v.dropCall()
	}
}

// beginCall finds somebody to answer a call.
func (v *conversation) beginCall(ctx context.Context, ev ipc.Event) {
	v.dropCall()
	v.call = &openCall{requestID: ev.RequestID, tool: ev.ToolName}
	v.out.pause(v.notes)
	fmt.Fprintf(v.notes, "The agent calls %s with %s\n", ev.ToolName, ev.Args)
	if command, ok := v.commands[ev.ToolName]; ok {
		v.runCommand(ctx, command, ev)
		return
	}
	if v.person {
		v.call.asked = true
		v.askResult()
		return
	}
	fmt.Fprintf(v.notes, "Nobody here answers it; say how with --tool-exec '%s=COMMAND'\n", ev.ToolName)
}

func (v *conversation) askResult() {
	fmt.Fprint(v.notes, "Its result, as JSON (Enter alone is null): ")
}

// dropCall forgets the call, if there is one, and ends its command.
func (v *conversation) dropCall() {
	if v.call != nil && v.call.stop != nil {
		v.call.stop()
		v.running.Wait()
	}
	v.call = nil
}

// answers returns the lines that the person types while a call waits for them,
// and nil at other times.
func (v *conversation) answers() <-chan string {
	if v.call != nil && v.call.asked {
		return v.lines
	}
	return nil
}

// typed takes a line as the result of the call.
func (v *conversation) typed(ctx context.Context, line string, ok bool) {
	if !ok {
		fmt.Fprintln(v.notes, "\nThe input has ended, so nobody answers.")
		v.call.asked, v.person = false, false
		return
	}
	result := jsontext.Value(strings.TrimSpace(line))
	if len(result) == 0 {
		result = jsontext.Value("null")
	}
	if err := result.Format(jsontext.PreserveRawStrings(true)); err != nil {
		fmt.Fprintf(v.notes, "That is no JSON: %s. A text stands in \"quotes\".\n", jsonProblem(err))
		v.askResult()
		return
	}
	v.submit(ctx, toolOutput{v.call.requestID, result})
}

// submit hands in the result of the call.
func (v *conversation) submit(ctx context.Context, out toolOutput) {
	if v.call == nil || v.call.requestID != out.requestID {
		return // it is over meanwhile
	}
	v.dropCall()
	payload := map[string]any{"threadId": v.id, "requestId": out.requestID, "result": out.result}
	if err := v.client.Call(ctx, "submit_tool_result", payload, nil); err != nil {
		fmt.Fprintf(v.notes, "The result was not taken: %s\n", sentence(err))
	}
}

// runCommand lets a command answer a call: arguments on its standard input, the
// result on its standard output.
func (v *conversation) runCommand(ctx context.Context, command string, ev ipc.Event) {
	ctx, v.call.stop = context.WithCancel(ctx)
	v.running.Go(func() {
		out := toolOutput{ev.RequestID, commandResult(ctx, command, ev.Args)}
		select {
		case v.outputs <- out:
		case <-ctx.Done():
		}
	})
}

// commandResult runs a command in the shell and returns what it printed, or a
// result that says why there is none.
func commandResult(ctx context.Context, command string, args jsontext.Value) jsontext.Value {
	cmd := shellCommand(ctx, command)
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(string(args))
	printed, err := cmd.Output()
	if err != nil {
		return handlerError(fmt.Sprintf("The command failed: %v%s", err, lastWords(err)))
	}
	if len(printed) > maxToolOutput {
		return handlerError(fmt.Sprintf("The command printed %d bytes; a result has %d at most.", len(printed), maxToolOutput))
	}
	result := jsontext.Value(printed)
	if err := result.Format(jsontext.PreserveRawStrings(true)); err != nil {
		return handlerError(fmt.Sprintf("The command printed something that is no JSON: %s", jsonProblem(err)))
	}
	return result
}

// lastWords returns what a failed command wrote to standard error.
func lastWords(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || len(exit.Stderr) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(strings.ToValidUTF8(string(exit.Stderr), "\uFFFD"))
}

func handlerError(message string) jsontext.Value {
	return thread.EncodeError(fault.New(toolHandlerError, message))
}

// parseToolCommands reads the values of --tool-exec, NAME=COMMAND each.
func parseToolCommands(specs []string) (map[string]string, error) {
	commands := make(map[string]string, len(specs))
	for _, spec := range specs {
		name, command, ok := strings.Cut(spec, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.TrimSpace(command) == "" {
			return nil, usagef("--tool-exec is NAME=COMMAND, not %q", spec)
		}
		commands[name] = command
	}
	return commands, nil
}

// readSkills reads the file of --tools: {"guidance", "tools"}, as create_thread
// takes it. The daemon checks what is in it.
func readSkills(path string) (jsontext.Value, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the tools cannot be read: %w", err)
	}
	skills := jsontext.Value(text)
	if err := skills.Format(jsontext.PreserveRawStrings(true)); err != nil {
		return nil, fault.Newf(fault.ToolsManifestInvalid, "%s is no JSON: %s", path, jsonProblem(err))
	}
	return skills, nil
}
