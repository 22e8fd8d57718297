package scripted

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// toolServer is a server of tools that the client named for a session. It is asked
// when a tool of it is called first.
type toolServer struct {
	name   string
	url    string
	header http.Header

	mu      sync.Mutex
	session *mcp.ClientSession // nil = not connected
	wire    *http.Transport
}

// serverParams are a server as session/new, load and resume name it.
type serverParams struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	URL     string `json:"url"`
	Headers []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"headers"`
}

// servers returns those that can be reached over HTTP.
func servers(params []serverParams) (list []*toolServer) {
	for _, p := range params {
		if p.Type != "http" {
			continue
		}
		s := &toolServer{name: p.Name, url: p.URL, header: http.Header{}}
		for _, h := range p.Headers {
			s.header.Add(h.Name, h.Value)
		}
		list = append(list, s)
	}
	return list
}

// connected returns the session with the server, opening it if need be.
func (s *toolServer) connected(ctx context.Context) (*mcp.ClientSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		return s.session, nil
	}
	s.wire = &http.Transport{}
	client := mcp.NewClient(&mcp.Implementation{Name: "pedelec-scripted", Version: Version}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.url, HTTPClient: &http.Client{Transport: withHeader{s.header, s.wire}}, MaxRetries: -1,
	}, nil)
	if err != nil {
		s.wire.CloseIdleConnections()
		return nil, err
	}
	s.session = session
	return session, nil
}

// closePatience is how long a server may take to hear that its session is over.
const closePatience = time.Second

// close ends the session with the server.
func (s *toolServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return
	}
	session, wire := s.session, s.wire
	s.session = nil
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = session.Close() // the server may be gone before us
		wire.CloseIdleConnections()
	}()
	late := time.NewTimer(closePatience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C: // it goes with this process
	}
}

// call calls a tool and returns its answer's text.
func (s *toolServer) call(ctx context.Context, callID, name string, args jsontext.Value) (text string, failed bool, err error) {
	session, err := s.connected(ctx)
	if err != nil {
		return "", false, err
	}
	params := &mcp.CallToolParams{Name: name, Arguments: rawArguments(args)}
	params.SetProgressToken(callID)
	result, err := session.CallTool(ctx, params)
	if err != nil {
		return "", false, err
	}
	var b strings.Builder
	for _, content := range result.Content {
		if t, ok := content.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String(), result.IsError, nil
}

// rawArguments are JSON for the SDK, which writes with the standard library.
type rawArguments []byte

// MarshalJSON returns the text as it is.
func (r rawArguments) MarshalJSON() ([]byte, error) { return r, nil }

// withHeader sends a header with every request.
type withHeader struct {
	header http.Header
	next   http.RoundTripper
}

// RoundTrip sends one request.
func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.header {
		r.Header[name] = values
	}
	return h.next.RoundTrip(r)
}

// visibility says whether the client sees a tool call before it is made.
type visibility int

const (
	announced visibility = iota
	silent
)

// toolCall is one call of a frontend tool.
type toolCall struct {
	id   string
	name string // as the server lists it
	args jsontext.Value
}

func (t *turn) newCall(name string, args jsontext.Value) toolCall {
	t.calls++
	return toolCall{id: fmt.Sprintf("call_%d_%d", t.number, t.calls), name: t.functionName(name), args: args}
}

// functionName returns the name under which the instructions say a tool is called.
func (t *turn) functionName(name string) string {
	if told, ok := t.s.tool(name); ok && told.FunctionName != "" {
		return told.FunctionName
	}
	return name
}

// serverOf returns the server whose tools a session's model is offered. As with
// OpenCode, a session without one of its own is offered those of any other in its
// folder.
func (a *agent) serverOf(s *session) *toolServer {
	if len(s.servers) > 0 {
		return s.servers[0]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, other := range a.sessions {
		if other.cwd == s.cwd && len(other.servers) > 0 {
			return other.servers[0]
		}
	}
	return nil
}

// callTool makes a call over MCP and returns what the agent says of it.
func (t *turn) callTool(c toolCall, how visibility) (string, error) {
	server := t.a.serverOf(t.s)
	if server == nil {
		return "tool error: the session has no tool server", nil
	}
	if how == announced {
		t.showCall(c, server.name+"_"+c.name, "other", c.args)
	}
	text, failed, err := server.call(t.ctx, c.id, c.name, c.args)
	_ = fault.Point("scripted.call.after")
	if t.ctx.Err() != nil {
		return "", errCancelled
	}
	if err != nil {
		text, failed = err.Error(), true
	}
	if how == announced {
		t.endCall(c.id, text, failed)
	}
	if failed {
		return "tool error: " + text, nil
	}
	return text, nil
}

// showCall tells the client of a tool call, in two steps as others do.
func (t *turn) showCall(c toolCall, title, kind string, input jsontext.Value) {
	t.a.update(t.s.id, object{"sessionUpdate": "tool_call", "toolCallId": c.id, "title": title, "kind": kind, "status": "pending", "locations": []object{}, "rawInput": object{}})
	t.a.update(t.s.id, object{"sessionUpdate": "tool_call_update", "toolCallId": c.id, "title": title, "kind": kind, "status": "in_progress", "rawInput": input})
}

func (t *turn) endCall(id, output string, failed bool) {
	status := "completed"
	if failed {
		status = "failed"
	}
	t.a.update(t.s.id, object{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "rawOutput": object{"output": output}})
}

// callInParallel makes several calls of one tool at once and says their answers, a
// line each, in the order of the calls.
func (t *turn) callInParallel(count int, name string, args func(i int) jsontext.Value) error {
	lines, errs := make([]string, count), make([]error, count)
	var calls sync.WaitGroup
	for i := range count {
		c := t.newCall(name, args(i))
		calls.Go(func() { lines[i], errs[i] = t.callTool(c, announced) })
	}
	calls.Wait()
	if err := errors.Join(errs...); err != nil {
		return errCancelled // nothing else stops a call
	}
	return t.message(strings.Join(lines, "\n"))
}
