package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// demoTools are the frontend tools of a page in a test.
var demoTools = object{
	"guidance": "",
	"tools": []object{
		{"name": "add", "description": "adds two numbers", "argsSchema": object{
			"type": "object", "required": []string{"a", "b"},
			"properties": object{"a": object{"type": "number"}, "b": object{"type": "number"}},
		}},
		{"name": "ask", "description": "asks somebody", "argsSchema": object{"type": "object"}},
	},
}

// page is an application's page in a test: a thread with tools, and the
// connection on which the page listens.
type page struct {
	t     testing.TB
	d     *daemon
	c     *conn
	id    string
	count int // operations begun
}

// newPage makes a thread with demoTools; more adds to the payload.
func newPage(t testing.TB, d *daemon, more object) *page {
	t.Helper()
	payload := object{"provider": "opencode", "skills": demoTools}
	for k, v := range more {
		payload[k] = v
	}
	p := &page{t: t, d: d, c: d.dial()}
	var created struct {
		ThreadID string `json:"threadId"`
	}
	p.must(p.c.call("create_thread", payload, &created))
	p.id = created.ThreadID
	p.must(p.c.call("subscribe_thread", object{"threadId": p.id}, nil))
	return p
}

func (p *page) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// send begins a turn and returns its id.
func (p *page) send(text string) string {
	p.t.Helper()
	p.count++
	op := fmt.Sprint("op-", p.count)
	p.must(p.c.call("send_text", object{"threadId": p.id, "operationId": op, "message": text}, nil))
	return op
}

// busy begins a turn that goes on until it is cancelled, and waits until the agent
// is at it.
func (p *page) busy() {
	p.t.Helper()
	p.send("stream 1 ; hang")
	p.await("assistant_delta")
}

// await takes the events up to the next of a type, and returns that.
func (p *page) await(kind string) event {
	p.t.Helper()
	events, err := p.c.until(patience, func(e event) bool { return e.Type == kind })
	if err != nil {
		p.t.Fatalf("waiting for %s: %v; so far %s%s", kind, err, kinds(events), said(events))
	}
	return events[len(events)-1]
}

// said is what the agent said in events, for the message of a failed test.
func said(events []event) string {
	text := ""
	for _, e := range events {
		if e.Type == "assistant_message" {
			text += fmt.Sprintf("; the agent said %q", e.Text)
		}
	}
	return text
}

// finish takes the events up to the end of an operation.
func (p *page) finish(op string) []event {
	p.t.Helper()
	events, err := p.c.until(patience, func(e event) bool { return e.Type == "operation_completed" && e.OperationID == op })
	if err != nil {
		p.t.Fatalf("operation %s: %v; so far %s", op, err, kinds(events))
	}
	return events
}

// says ends a turn well and returns what the agent said.
func (p *page) says(op string) string {
	p.t.Helper()
	var messages []string
	events := p.finish(op)
	for _, e := range events {
		if e.Type == "assistant_message" {
			messages = append(messages, e.Text)
		}
	}
	if last := events[len(events)-1]; !last.Success {
		p.t.Fatalf("operation %s failed: %v", op, last.Err)
	}
	return strings.Join(messages, "\n")
}

// asked is a call of a frontend tool as the page gets it.
type asked struct {
	RequestID string         `json:"requestId"`
	ToolName  string         `json:"toolName"`
	Args      jsontext.Value `json:"args"`
}

// call waits for the next call of a tool.
func (p *page) call() asked {
	p.t.Helper()
	return p.parse(p.await("tool_call"))
}

func (p *page) parse(e event) asked {
	p.t.Helper()
	var a asked
	p.must(json.Unmarshal(e.raw, &a))
	return a
}

// answer submits a result, written as JSON.
func (p *page) answer(a asked, result string) {
	p.t.Helper()
	p.must(p.submit(a, result))
}

func (p *page) submit(a asked, result string) error {
	return p.c.call("submit_tool_result", object{"threadId": p.id, "requestId": a.RequestID, "result": jsontext.Value(result)}, nil)
}

// serve answers so many calls with their own arguments, one after the other, and
// fails the test if a call comes while another one is out.
func (p *page) serve(calls int) {
	p.t.Helper()
	for range calls {
		a := p.call()
		p.answer(a, string(a.Args))
		e, err := p.c.takeEvent(patience)
		for err == nil && e.Type == "status_changed" {
			e, err = p.c.takeEvent(patience)
		}
		p.must(err)
		if e.Type != "tool_result" {
			p.t.Fatalf("after an answer came %s", e.raw)
		}
	}
}

// outcome is what a caller of a tool got.
type outcome struct {
	n      int
	result jsontext.Value
	err    error
	conn   *conn // still open, as of somebody who has not read on
}

// callers make calls of a page's tool in parallel, each on a connection of its own.
type callers struct {
	outcomes chan outcome
	waiting  sync.WaitGroup
}

// callAtOnce calls a tool n times; args gives the arguments of each call.
func (p *page) callAtOnce(n int, name string, args func(n int) string) *callers {
	all := &callers{outcomes: make(chan outcome, n)}
	for i := range n {
		c := p.d.dial()
		all.waiting.Go(func() {
			var result jsontext.Value
			err := c.call("tool_call", object{"threadId": p.id, "toolName": name, "args": jsontext.Value(args(i))}, &result)
			all.outcomes <- outcome{i, result, err, c}
		})
	}
	return all
}

// cliPath is the command that agents are given.
func (d *daemon) cliPath() string { return filepath.Join(d.home, "bin", "pedelec-cli") }

// cli returns a run of the agents' command, as the environment of an agent has it.
func (d *daemon) cli(args ...string) *exec.Cmd {
	cmd := exec.Command(d.cliPath(), args...)
	cmd.Env = append(cleanEnv(), "PEDELEC_CORE_IPC_RUNTIME_FILE="+filepath.Join(d.home, "agent-runtime.json"))
	cmd.Stderr = os.Stderr
	return cmd
}

// cliAnswer is the line that the agents' command prints.
type cliAnswer struct {
	OK     bool           `json:"ok"`
	Result jsontext.Value `json:"result"`
	Err    *wireError     `json:"error"`
}

// finishCLI waits for a run whose output is in out; its status is always 0.
func finishCLI(t testing.TB, cmd *exec.Cmd, out *strings.Builder) cliAnswer {
	t.Helper()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	var a cliAnswer
	if err := json.Unmarshal([]byte(out.String()), &a); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%v printed %q: %v", cmd.Args, out, err)
	}
	return a
}

// startCLI starts a run of the agents' command, which is ended with the test.
func (p *page) startCLI(args ...string) (*exec.Cmd, *strings.Builder) {
	p.t.Helper()
	out := &strings.Builder{}
	cmd := p.d.cli(append([]string{"--thread-id", p.id}, args...)...)
	cmd.Stdout = out
	p.must(cmd.Start())
	p.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}
