package scripted

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// protocolVersion is the version of the Agent Client Protocol spoken here.
const protocolVersion = 1

// maxFrame bounds a line of input.
const maxFrame = 32 << 20

// Error codes of JSON-RPC and of the protocol.
const (
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeAuthRequired   = -32000
)

// agent is one running agent program.
type agent struct {
	out    *output
	stderr io.Writer
	env    []string
	store  *store
	exits  exits
	stdout io.Writer // what children inherit

	leave    context.Context // done when the program ends
	leaveNow context.CancelFunc
	turns    sync.WaitGroup
	stubborn atomic.Bool // nothing but kill -9 ends it

	mu          sync.Mutex
	initialised bool
	leaving     bool // no turn begins any more
	sessions    map[string]*session
	asked       map[int64]chan message // requests to the client that wait for an answer
	nextAsk     int64
}

// message is any JSON-RPC message.
type message struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *rpcError      `json:"error,omitzero"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitzero"`
}

func (e *rpcError) Error() string { return e.Message }

// object is a JSON object that is only ever written.
type object map[string]any

func newAgent(stdout, stderr io.Writer, env []string, s *store) *agent {
	leave, leaveNow := context.WithCancel(context.Background())
	return &agent{
		out:      newOutput(stdout, leaveNow),
		stdout:   stdout,
		stderr:   stderr,
		env:      env,
		store:    s,
		exits:    realExits,
		leave:    leave,
		leaveNow: leaveNow,
		sessions: map[string]*session{},
		asked:    map[int64]chan message{},
	}
}

// read handles frames until the input ends.
func (a *agent) read(stdin io.Reader) error {
	r := bufio.NewReaderSize(stdin, 64<<10)
	for {
		line, err := readLine(r)
		if len(bytes.TrimSpace(line)) > 0 {
			a.handle(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxFrame {
			return nil, fmt.Errorf("a line is longer than %d bytes", maxFrame)
		}
	}
}

func (a *agent) handle(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		fmt.Fprintf(a.stderr, "ignored a line that is no message: %v\n", err)
		return
	}
	switch {
	case m.Method == "":
		a.answered(m)
	case m.ID == nil:
		a.notified(m)
	case m.Method == "session/prompt":
		a.prompt(m)
	case m.Method == "initialize":
		a.initialize(m)
	default:
		result, err := a.call(m)
		a.reply(m.ID, result, err)
	}
}

func (a *agent) reply(id jsontext.Value, result any, err error) {
	frame := object{"jsonrpc": "2.0", "id": id}
	var rpc *rpcError
	switch {
	case errors.As(err, &rpc):
		frame["error"] = rpc
	case err != nil:
		frame["error"] = &rpcError{Code: codeInternal, Message: err.Error()}
	default:
		frame["result"] = result
	}
	a.send(a.leave, frame)
}

func (a *agent) send(ctx context.Context, frame object) {
	line, err := json.Marshal(frame, json.Deterministic(true))
	if err != nil {
		fmt.Fprintf(a.stderr, "a frame cannot be written: %v\n", err)
		return
	}
	a.out.send(ctx, append(line, '\n'))
}

// answered takes the client's answer to a request of ours.
func (a *agent) answered(m message) {
	var id int64
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	a.mu.Lock()
	waiter := a.asked[id]
	delete(a.asked, id)
	a.mu.Unlock()
	if waiter != nil {
		waiter <- m // has room for one, and gets no more
	}
}

// ask sends a request to the client and waits for the answer.
func (a *agent) ask(ctx context.Context, method string, params object) (message, error) {
	waiter := make(chan message, 1)
	a.mu.Lock()
	id := a.nextAsk
	a.nextAsk++
	a.asked[id] = waiter
	a.mu.Unlock()
	a.send(ctx, object{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	select {
	case m := <-waiter:
		return m, nil
	case <-ctx.Done():
		a.mu.Lock()
		delete(a.asked, id)
		a.mu.Unlock()
		return message{}, errCancelled
	}
}

func (a *agent) notified(m message) {
	if m.Method != "session/cancel" {
		return
	}
	var p struct {
		SessionID string `json:"sessionId"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[p.SessionID]; s != nil && s.cancel != nil {
		s.cancel()
	}
}

func (a *agent) initialize(m message) {
	_ = fault.Point("scripted.greet.before")
	how := lookup(a.env, InitEnv)
	version := protocolVersion
	switch {
	case how == "hang":
		return
	case how == "exit":
		fmt.Fprintln(a.stderr, "told to exit at initialize")
		a.exits.status(exitFailed)
		return
	case how == "fail":
		a.reply(m.ID, nil, &rpcError{Code: codeInternal, Message: "told to fail at initialize"})
		return
	case how == "old":
		version = 0
	case strings.HasPrefix(how, "wait:"):
		if d, err := time.ParseDuration(how[len("wait:"):]); err == nil {
			_ = pause(a.leave, d)
		}
	}
	a.mu.Lock()
	a.initialised = true
	a.mu.Unlock()
	methods := []object{}
	if how == "auth" {
		methods = append(methods, object{"id": "scripted-login", "name": "Log in", "description": "Run `scripted login` in a terminal"})
	}
	a.reply(m.ID, object{
		"protocolVersion": version,
		"agentInfo":       object{"name": "pedelec-scripted", "title": "Scripted agent", "version": Version},
		"authMethods":     methods,
		"agentCapabilities": object{
			"loadSession":         true,
			"mcpCapabilities":     object{"http": true, "sse": false},
			"promptCapabilities":  object{"image": false, "audio": false, "embeddedContext": false},
			"sessionCapabilities": object{"close": object{}, "list": object{}, "resume": object{}},
		},
	}, nil)
}

// call answers every request but initialize and session/prompt.
func (a *agent) call(m message) (any, error) {
	if err := a.ready(); err != nil {
		return nil, err
	}
	switch m.Method {
	case "session/new":
		return a.newSession(m.Params)
	case "session/load":
		return a.openSession(m.Params, replayHistory)
	case "session/resume":
		return a.openSession(m.Params, noReplay)
	case "session/close":
		return a.closeSession(m.Params)
	case "session/list":
		return a.listSessions()
	case "session/set_config_option":
		return a.setOption(m.Params)
	}
	return nil, &rpcError{Code: codeMethodNotFound, Message: "method not found: " + m.Method}
}

func (a *agent) ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.initialised {
		return &rpcError{Code: codeInvalidRequest, Message: "initialize comes first"}
	}
	return nil
}

// file returns w if it is a real file, which a child can inherit.
func file(w io.Writer) *os.File {
	f, _ := w.(*os.File)
	return f
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errCancelled
	}
}
