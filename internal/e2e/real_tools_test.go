package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/e2e/modelserver"
)

// longCall is how long a page may take in the test of a long call: longer than the
// minute after which agents give up a tool that gives no sign of life.
const longCall = 75 * time.Second

// toolThread makes a thread with demoTools in a folder of this name.
func (s *realStage) toolThread(folder string) *realThread {
	s.Helper()
	th := &realThread{s: s, c: s.d.dial(), ws: filepath.Join(s.work, folder)}
	var created struct {
		ThreadID string `json:"threadId"`
	}
	s.must(th.c.call("create_thread", object{"provider": "opencode", "workspace": object{"path": th.ws}, "skills": demoTools}, &created))
	th.id = created.ThreadID
	th.subscribe()
	return th
}

// told waits until the model was sent a tool's answer that holds this text, in a
// turn whose text holds the other.
func (s *realStage) told(turn, answer string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), realPatience)
	defer cancel()
	_, err := s.model.Await(ctx, func(r modelserver.Request) bool {
		return strings.Contains(r.LastUserText(), turn) && slices.ContainsFunc(r.Messages, func(m modelserver.Message) bool {
			return m.Role == "tool" && strings.Contains(m.Text, answer)
		})
	})
	if err != nil {
		s.Errorf("the model was not told %q in the turn %q: %v", answer, turn, err)
		for _, r := range s.model.Requests() {
			if strings.Contains(r.LastUserText(), turn) {
				for _, m := range r.Messages {
					if m.Role == "tool" {
						s.Logf("it was told %q", clip([]byte(m.Text)))
					}
				}
			}
		}
	}
}

// done waits for the end of a turn in which the model asked for a tool.
func (th *realThread) done(op string) {
	th.s.Helper()
	events := th.finish(op)
	if last := events[len(events)-1]; !last.Success {
		th.s.Fatalf("operation %s failed: %v", op, last.Err)
	}
	for _, e := range events {
		if e.Type == "tool_call" {
			th.s.Errorf("the page was asked once more: %s", e.raw)
		}
	}
}

// TestRealOpenCodeTools lets the real agent call frontend tools in both ways that
// it has.
func TestRealOpenCodeTools(t *testing.T) {
	s := newRealStage(t)
	first := s.toolThread("project")

	t.Log("over the tool server")
	first.send("server", `[[tool pedelec_add {"a":1,"b":2}]] by server`)
	first.answer("add", `{"a":1,"b":2}`, `{"sum":3,"note":"from the page"}`)
	first.done("server")
	s.told("by server", `"note":"from the page"`)
	first.send("wrong", `[[tool pedelec_add {"a":1,"b":"two"}]] wrongly`)
	first.done("wrong")
	s.told("wrongly", "TOOL_ARGS_INVALID")

	t.Log("a second thread in the same folder calls by the command that it is told of")
	second := s.toolThread("project")
	command, err := json.Marshal(fmt.Sprintf(`%s --thread-id %s tool-call add '{"a":3,"b":4}'`, s.d.cliPath(), second.id))
	s.must(err)
	second.send("command", `[[tool bash {"description":"call a tool","command":`+string(command)+`}]] by command`)
	second.answer("add", `{"a":3,"b":4}`, `{"sum":7,"note":"by hand"}`)
	second.done("command")
	s.told("by command", `{"ok":true,"result":{"sum":7,"note":"by hand"}}`)
	if r := s.asked("by command"); !slices.ContainsFunc(r.Messages, func(m modelserver.Message) bool { return strings.Contains(m.Text, s.d.cliPath()) }) {
		t.Error("the agent was not told of the command")
	}

	t.Log("the first thread's server is closed to the second thread's conversation")
	if offered := s.asked("by command").Tools; !slices.Contains(offered, "pedelec_add") {
		t.Errorf("the agent offers the second conversation %v; without the first one's tools this shows nothing", offered)
	}
	first.send("busy", "[[hang]] meanwhile")
	s.asked("meanwhile")
	second.send("foreign", `[[tool pedelec_add {"a":5,"b":6}]] as a stranger`)
	second.done("foreign")
	s.told("as a stranger", "THREAD_ACCESS_DENIED")
	s.must(s.d.dial().call("cancel_operation", object{"threadId": first.id, "operationId": "busy"}, nil))
	first.unasked("busy")

	t.Logf("a page that takes %v", longCall)
	first.send("long", `[[tool pedelec_ask {"timeoutMs":180000}]] slowly`)
	call := first.await("tool_call", "")
	if events, err := first.c.until(longCall, func(event) bool { return true }); err != errTimeout {
		t.Fatalf("meanwhile there came %s, %v", kinds(events), err)
	}
	var asked asked
	s.must(json.Unmarshal(call.raw, &asked))
	s.must(first.c.call("submit_tool_result", object{"threadId": first.id, "requestId": asked.RequestID, "result": "at last"}, nil))
	first.done("long")
	s.told("slowly", "at last")
}

// unasked waits for the end of a cancelled turn in which the page was asked for
// nothing.
func (th *realThread) unasked(op string) {
	th.s.Helper()
	for _, e := range th.finish(op) {
		if e.Type == "tool_call" {
			th.s.Errorf("the page was asked: %s", e.raw)
		}
	}
	th.await("status_changed", "idle")
}
