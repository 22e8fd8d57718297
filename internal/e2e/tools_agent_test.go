package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestAgentCallsToolsOverTheServer(t *testing.T) {
	t.Parallel()
	p := newPage(t, start(t, newHome(t)), nil)
	for _, c := range []struct {
		name, text string
		answer     string // of the page; "" = it must not be asked
		want       string // what the agent says holds this
	}{
		{"the page's answer reaches the agent", `call add {"a":1,"b":2}`, `{"sum":3}`, `{"sum":3}`},
		{"an error of the page is an answer", `call ask {}`, `{"error":{"code":"HANDLER","message":"no"}}`, `{"error":{"code":"HANDLER","message":"no"}}`},
		{"wrong arguments are explained", `call add {"a":1,"b":"2"}`, "", "TOOL_ARGS_INVALID"},
		{"an unknown tool is none", `call subtract {"a":1}`, "", "TOOL_NOT_FOUND"},
		{"a call that no conversation shows is refused", `call-silent ask {}`, "", "THREAD_ACCESS_DENIED"},
		{"a long answer arrives whole", `call ask {"n":1}`, `"` + strings.Repeat("x", 100_000) + `"`, strings.Repeat("x", 100_000)},
	} {
		op := p.send(c.text)
		if c.answer != "" {
			p.answer(p.call(), c.answer)
		}
		if got := p.says(op); !strings.Contains(got, c.want) {
			t.Errorf("%s: the agent says %q", c.name, clip([]byte(got)))
		}
		p.quiet("tool_call")
	}

	t.Log("a call that times out does not end the turn")
	op := p.send(`call ask {"timeoutMs":50}`)
	if got := p.says(op); !strings.Contains(got, "TOOL_TIMEOUT") {
		t.Errorf("the agent says %q", got)
	}

	t.Log("calls at once stay apart, equal or not")
	op = p.send(`call-parallel 5 ask`)
	p.serve(5)
	if got, want := p.says(op), "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n{\"n\":5}"; got != want {
		t.Errorf("the agent says %q", got)
	}
	op = p.send(`call-parallel 2 ask {"same":true}`)
	p.answer(p.call(), `1`)
	p.answer(p.call(), `2`)
	if got := p.says(op); got != "1\n2" && got != "2\n1" {
		t.Errorf("two equal calls got %q", got)
	}

	t.Log("a cancelled turn takes its call along")
	op = p.send(`call ask {"n":7}`)
	a := p.call()
	other := p.d.dial()
	p.must(other.call("cancel_operation", object{"threadId": p.id}, nil))
	events := p.finish(op)
	if code := codeOf(asError(events[len(events)-1].Err)); code != "OPERATION_CANCELLED" {
		t.Errorf("the turn ended with %q", code)
	}
	if err := p.submit(a, "1"); codeOf(err) != "PENDING_TOOL_REQUEST_NOT_FOUND" {
		t.Errorf("the late answer got %v", err)
	}
}

func TestAgentCallsToolsByCommandWhereTheFolderIsTaken(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t))
	workspace := object{"workspace": object{"path": filepath.Join(filepath.Dir(d.home), "project")}}
	first := newPage(t, d, workspace)
	first.busy()
	second := newPage(t, d, workspace)

	op := second.send(`cli add {"a":1,"b":2}`)
	second.answer(second.call(), `{"sum":3}`)
	if got, want := second.says(op), `{"ok":true,"result":{"sum":3}}`; got != want {
		t.Errorf("the agent says %q, want %q", got, want)
	}
	op = second.send(`cli add {"a":"it's","b":2}`)
	if got := second.says(op); !strings.Contains(got, "TOOL_ARGS_INVALID") {
		t.Errorf("the agent says %q", got)
	}
	op = second.send(`cli-spec add`)
	var spec struct {
		OK     bool `json:"ok"`
		Result struct {
			Name string `json:"name"`
		} `json:"result"`
	}
	if got := second.says(op); json.Unmarshal([]byte(got), &spec) != nil || spec.Result.Name != "add" {
		t.Errorf("the agent says %q", got)
	}
	first.quiet("tool_call")

	t.Log("the server is not offered to the second conversation")
	op = second.send(`call add {"a":1,"b":2}`)
	if got := second.says(op); !strings.Contains(got, "tool error") {
		t.Errorf("the agent says %q", got)
	}
	first.quiet("tool_call")
	second.quiet("tool_call")
}
