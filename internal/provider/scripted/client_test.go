package scripted

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/leak"
)

// childEnv makes the test binary the agent itself.
const childEnv = "PEDELEC_SCRIPTED_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" || os.Getenv(roleEnv) != "" {
		os.Exit(Run(context.Background(), os.Stdin, os.Stdout, os.Stderr, nil, os.Environ()))
	}
	leak.VerifyTestMain(m)
}

// patience is how long a test waits for what must come; never reached when all
// is well.
const patience = 20 * time.Second

// client is the host's side of the protocol.
type client struct {
	t      *testing.T
	in     io.WriteCloser
	frames chan message // closed at the end of the output
	strays []string     // lines that are no frames
	nextID int
	later  map[int]message // answers that came before they were waited for

	updates []update
	onAsk   func(m message) object // answers a request of the agent; nil = leaves it open
}

type update struct {
	SessionID string
	Kind      string
	MessageID string
	Text      string
	Raw       jsontext.Value
}

func newClient(t *testing.T, in io.WriteCloser, out io.Reader) *client {
	c := &client{t: t, in: in, frames: make(chan message, 1024), later: map[int]message{}}
	var done sync.WaitGroup
	done.Go(func() {
		defer close(c.frames)
		r := bufio.NewReaderSize(out, 1<<20)
		for {
			line, err := r.ReadBytes('\n')
			var m message
			switch {
			case len(line) > 0 && json.Unmarshal(line, &m) == nil:
				c.frames <- m
			case len(line) > 0:
				c.frames <- message{Method: "stray", Params: jsontext.Value(line)}
			}
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		c.in.Close()
		for range c.frames {
		}
		done.Wait()
	})
	return c
}

// inProcess starts the agent as a function over pipes.
func inProcess(t *testing.T, env ...string) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	if !hasVariable(env, StateEnv) {
		env = append(env, StateEnv+"="+t.TempDir())
	}
	stderr := &safeBuffer{}
	var agent sync.WaitGroup
	agent.Go(func() {
		defer outW.Close()
		if status := Run(context.Background(), inR, outW, stderr, []string{"acp"}, env); status != exitDone {
			t.Errorf("status %d, stderr %q", status, stderr)
		}
	})
	t.Cleanup(agent.Wait)
	return newClient(t, inW, outR)
}

// child is the agent as a process.
type child struct {
	*client
	cmd    *exec.Cmd
	stderr string // path of the file that takes it
	reap   func()
}

func startChild(t *testing.T, env ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	if !hasVariable(env, StateEnv) {
		env = append(env, StateEnv+"="+t.TempDir())
	}
	cmd.Env = append(append(os.Environ(), childEnv+"=1"), env...)
	in, err := cmd.StdinPipe()
	must(t, err)
	outR, outW, err := os.Pipe()
	must(t, err)
	cmd.Stdout = outW
	// A file, so that Wait does not wait for tools that inherited a pipe.
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	cmd.Stderr = stderr
	must(t, cmd.Start())
	outW.Close()
	stderr.Close()
	c := &child{cmd: cmd, stderr: stderr.Name(), reap: sync.OnceFunc(func() { _ = cmd.Wait() })}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		c.reap()
		outR.Close()
	})
	c.client = newClient(t, in, outR)
	return c
}

func hasVariable(env []string, name string) bool { return lookup(env, name) != "" }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (c *client) write(frame object) {
	c.t.Helper()
	line, err := json.Marshal(frame)
	must(c.t, err)
	_, err = c.in.Write(append(line, '\n'))
	must(c.t, err)
}

func (c *client) start(method string, params object) (id int) {
	c.t.Helper()
	c.nextID++
	c.write(object{"jsonrpc": "2.0", "id": c.nextID, "method": method, "params": params})
	return c.nextID
}

func (c *client) notify(method string, params object) {
	c.write(object{"jsonrpc": "2.0", "method": method, "params": params})
}

var errOutputEnded = errors.New("the output ended")

// next takes one frame, and files it if it is an update, a stray line or a
// request.
func (c *client) next() (message, error) {
	c.t.Helper()
	select {
	case m, ok := <-c.frames:
		if !ok {
			return m, errOutputEnded
		}
		c.file(m)
		return m, nil
	case <-time.After(patience):
		c.t.Fatal("the agent is silent")
		return message{}, nil
	}
}

func (c *client) file(m message) {
	switch {
	case m.Method == "stray":
		c.strays = append(c.strays, string(m.Params))
	case m.Method == "session/update":
		var p struct {
			SessionID string         `json:"sessionId"`
			Update    jsontext.Value `json:"update"`
		}
		must(c.t, json.Unmarshal(m.Params, &p))
		var u struct {
			Kind      string `json:"sessionUpdate"`
			MessageID string `json:"messageId"`
			Content   struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		must(c.t, json.Unmarshal(p.Update, &u))
		c.updates = append(c.updates, update{p.SessionID, u.Kind, u.MessageID, u.Content.Text, p.Update})
	case m.Method != "" && m.ID != nil && c.onAsk != nil:
		if answer := c.onAsk(m); answer != nil {
			c.write(object{"jsonrpc": "2.0", "id": m.ID, "result": answer})
		}
	}
}

// wait takes frames until the answer to a request comes.
func (c *client) wait(id int) (jsontext.Value, error) {
	c.t.Helper()
	for {
		if m, ok := c.later[id]; ok {
			delete(c.later, id)
			if m.Error != nil {
				return nil, m.Error
			}
			return m.Result, nil
		}
		m, err := c.next()
		if err != nil {
			return nil, err
		}
		var got int
		if m.Method == "" && json.Unmarshal(m.ID, &got) == nil {
			c.later[got] = m
		}
	}
}

func (c *client) call(method string, params object) (jsontext.Value, error) {
	c.t.Helper()
	return c.wait(c.start(method, params))
}

func (c *client) initialise() *client {
	c.t.Helper()
	_, err := c.call("initialize", object{"protocolVersion": 1, "clientCapabilities": object{}})
	must(c.t, err)
	return c
}

// session opens a session in a folder of its own.
func (c *client) session() string {
	c.t.Helper()
	return c.sessionIn(c.t.TempDir())
}

func (c *client) sessionIn(cwd string) string {
	c.t.Helper()
	result, err := c.call("session/new", object{"cwd": cwd, "mcpServers": []any{}})
	must(c.t, err)
	var r struct {
		SessionID string `json:"sessionId"`
	}
	must(c.t, json.Unmarshal(result, &r))
	if r.SessionID == "" {
		c.t.Fatalf("no session id in %s", result)
	}
	return r.SessionID
}

func promptParams(session, text string) object {
	return object{"sessionId": session, "prompt": []object{{"type": "text", "text": text}}}
}

func (c *client) startPrompt(session, text string) int {
	c.t.Helper()
	return c.start("session/prompt", promptParams(session, text))
}

// outcome is how a prompt ended.
type outcome struct {
	StopReason string `json:"stopReason"`
	Usage      struct {
		TotalTokens int `json:"totalTokens"`
	} `json:"usage"`
}

func (c *client) finish(id int) (outcome, error) {
	c.t.Helper()
	result, err := c.wait(id)
	if err != nil {
		return outcome{}, err
	}
	var o outcome
	must(c.t, json.Unmarshal(result, &o))
	return o, nil
}

// prompt runs a turn and returns its messages.
func (c *client) prompt(session, text string) ([]string, outcome, error) {
	c.t.Helper()
	c.updates = nil
	o, err := c.finish(c.startPrompt(session, text))
	return c.messages(session), o, err
}

// say runs a turn that must end well and returns what was said, messages joined
// by " | ".
func (c *client) say(session, text string) string {
	c.t.Helper()
	messages, o, err := c.prompt(session, text)
	must(c.t, err)
	if o.StopReason != "end_turn" {
		c.t.Fatalf("stop reason %q", o.StopReason)
	}
	return strings.Join(messages, " | ")
}

// messages joins the chunks of the last turn by message id.
func (c *client) messages(session string) []string {
	var texts []string
	var current string
	var b strings.Builder
	for _, u := range c.updates {
		if u.Kind != "agent_message_chunk" || u.SessionID != session {
			continue
		}
		if u.MessageID != current && current != "" {
			texts = append(texts, b.String())
			b.Reset()
		}
		current = u.MessageID
		b.WriteString(u.Text)
	}
	if current != "" {
		texts = append(texts, b.String())
	}
	return texts
}

// until takes frames until n chunks of text have come.
func (c *client) until(chunks int) {
	c.t.Helper()
	for {
		n := 0
		for _, u := range c.updates {
			if u.Kind == "agent_message_chunk" {
				n++
			}
		}
		if n >= chunks {
			return
		}
		if _, err := c.next(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// exit waits for the process and returns its status.
func (c *child) exit() int {
	c.t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); c.reap() }()
	select {
	case <-done:
	case <-time.After(patience):
		c.t.Fatal("the agent does not exit")
	}
	return c.cmd.ProcessState.ExitCode()
}

func pidIn(t *testing.T, said string) int {
	t.Helper()
	_, after, ok := strings.Cut(said, "pid=")
	var pid int
	if _, err := fmt.Sscan(after, &pid); !ok || err != nil {
		t.Fatalf("no pid in %q", said)
	}
	return pid
}
