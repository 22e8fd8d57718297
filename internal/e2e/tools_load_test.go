package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestLargeArgumentsAndResultsPassTheCommand(t *testing.T) {
	t.Parallel()
	p := newPage(t, start(t, newHome(t)), nil)
	p.busy()
	args := `{"text":"` + strings.Repeat("größer ", 50_000) + `"}` // too long for a command line
	result := `"` + strings.Repeat("x", 900_000) + `"`
	out := &strings.Builder{}
	cmd := p.d.cli("--thread-id", p.id, "tool-call", "ask", "-")
	cmd.Stdin, cmd.Stdout = strings.NewReader(args), out
	p.must(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	a := p.call()
	if string(a.Args) != args {
		t.Errorf("the page got %d bytes of arguments, sent were %d", len(a.Args), len(args))
	}
	p.answer(a, result)
	if got := finishCLI(t, cmd, out); !got.OK || string(got.Result) != result {
		t.Errorf("the command printed %d bytes, ok %v, error %v", out.Len(), got.OK, got.Err)
	}
}

// Sizes of the load below.
const (
	loadCallers = 12 // fewer than may wait
	loadCalls   = 40 // of each
	loadTabs    = 3  // of the page, all of which answer
)

// answerAll answers so many calls on a subscribed connection in the name of one
// tab, and returns the requests for which its answer was taken.
func answerAll(c *conn, thread, tab string, calls int) (taken []string, err error) {
	for range calls {
		events, err := c.until(patience, func(e event) bool { return e.Type == "tool_call" })
		if err != nil {
			return taken, err
		}
		var a asked
		if err := json.Unmarshal(events[len(events)-1].raw, &a); err != nil {
			return taken, err
		}
		err = c.call("submit_tool_result", object{"threadId": thread, "requestId": a.RequestID, "result": object{"tab": tab, "args": a.Args}}, nil)
		switch codeOf(err) {
		case "":
			taken = append(taken, a.RequestID)
		case "PENDING_TOOL_REQUEST_NOT_FOUND": // another tab was quicker
		default:
			return taken, err
		}
	}
	return taken, nil
}

// TestEveryCallGetsOneAnswer lets several tabs answer the calls of many callers:
// each call gets the answer to its own arguments, from exactly one tab.
func TestEveryCallGetsOneAnswer(t *testing.T) {
	t.Parallel()
	p := newPage(t, start(t, newHome(t)), nil)
	p.busy()
	const calls = loadCallers * loadCalls
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{} // by request, how many tabs were told that theirs was taken
	for i := range loadTabs {
		c := p.d.dial()
		p.must(c.call("subscribe_thread", object{"threadId": p.id}, nil))
		all.Go(func() {
			taken, err := answerAll(c, p.id, fmt.Sprint("tab", i), calls)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("tab %d: %v", i, err)
			}
			for _, id := range taken {
				answers[id]++
			}
		})
	}
	for i := range loadCallers {
		c := p.d.dial()
		all.Go(func() {
			for n := range loadCalls {
				args := fmt.Sprintf(`{"caller":%d,"n":%d}`, i, n)
				var got struct {
					Args jsontext.Value `json:"args"`
				}
				err := c.call("tool_call", object{"threadId": p.id, "toolName": "ask", "args": jsontext.Value(args)}, &got)
				if err != nil || string(got.Args) != args {
					t.Errorf("the call %s got the answer to %s, %v", args, got.Args, err)
				}
			}
		})
	}
	all.Wait()
	if len(answers) != calls {
		t.Errorf("%d of %d calls were answered", len(answers), calls)
	}
	for id, n := range answers {
		if n != 1 {
			t.Errorf("%s: %d tabs were told that their answer was taken", id, n)
		}
	}
}
