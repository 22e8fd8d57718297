package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// addTool is a manifest with one tool, add.
const addTool = `{"guidance":"", "tools":[{"name":"add", "description":"adds", "timeoutMs": 20000,
	"argsSchema":{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}}]}`

// calling begins a turn in which the tool add is called with {"a":1}, and returns
// the result of the call.
func calling(t *testing.T, adjust func(*conversation)) (jsontext.Value, error) {
	t.Helper()
	tools := filepath.Join(t.TempDir(), "tools.json")
	if err := os.WriteFile(tools, []byte(addTool), 0o600); err != nil {
		t.Fatal(err)
	}
	talk, interrupts := newConversationWith(t, chatFlags{tools: tools})
	adjust(talk)
	var result jsontext.Value
	called := make(chan error, 1)
	talk.out.w = onFirstWrite(func() {
		go func() {
			payload := map[string]any{"threadId": talk.id, "toolName": "add", "args": map[string]any{"a": 1}}
			called <- talk.client.Call(context.Background(), "tool_call", payload, &result)
			interrupts <- os.Interrupt
		}()
	})
	if err := talk.turn(t.Context(), "echo begun ; hang"); !fault.Is(err, fault.OperationCancelled) {
		t.Fatalf("the turn ended with %v, want OPERATION_CANCELLED", err)
	}
	err := <-called
	if talk.call != nil {
		t.Error("the call is still open after the turn")
	}
	return result, err
}

func TestAPersonAnswersACall(t *testing.T) {
	var notes strings.Builder
	result, err := calling(t, func(talk *conversation) {
		lines := make(chan string, 2)
		lines <- "no JSON"
		lines <- ` {"sum": 3} `
		talk.person, talk.lines, talk.notes = true, lines, &notes
	})
	if err != nil || string(result) != `{"sum":3}` {
		t.Errorf("result %s, %v", result, err)
	}
	for _, want := range []string{`calls add with {"a":1}`, "That is no JSON"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("the person was not told %q but %q", want, notes.String())
		}
	}
}

func TestEnterAloneAnswersNull(t *testing.T) {
	result, err := calling(t, func(talk *conversation) {
		lines := make(chan string, 1)
		lines <- ""
		talk.person, talk.lines = true, lines
	})
	if err != nil || string(result) != `null` {
		t.Errorf("result %s, %v", result, err)
	}
}

func TestACommandAnswersACall(t *testing.T) {
	for _, c := range []struct{ name, command, want string }{
		{"what it prints is the result", `cat`, `{"a":1}`},
		{"it may print on several lines", `echo '{'; echo '"x": [1]}'`, `{"x":[1]}`},
		{"its failure is a result", `echo oh no >&2; exit 3`, `"TOOL_HANDLER_ERROR","message":"The command failed: exit status 3: oh no"`},
		{"text that is no JSON is a failure", `echo hello`, `The command printed something that is no JSON`},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := calling(t, func(talk *conversation) { talk.commands = map[string]string{"add": c.command} })
			if err != nil || !strings.Contains(string(result), c.want) {
				t.Errorf("result %s, %v; want %s", result, err, c.want)
			}
		})
	}
}

func TestACommandEndsWithTheTurn(t *testing.T) {
	talk, interrupts := newConversation(t)
	talk.call = &openCall{requestID: "r", tool: "add"}
	talk.runCommand(t.Context(), "exec sleep 600", ipc.Event{RequestID: "r", ToolName: "add"})
	interrupts <- os.Interrupt
	if err := talk.turn(t.Context(), "hang"); !fault.Is(err, fault.OperationCancelled) {
		t.Fatalf("the turn ended with %v, want OPERATION_CANCELLED", err)
	}
	talk.running.Wait() // else the test hangs
}
