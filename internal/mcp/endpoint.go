package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// requestHeader carries our number of an HTTP request to the call in it. What a
// peer sends under this name is overwritten.
const requestHeader = "Pedelec-Request"

// secretPrefix lets the redactor know a secret by its look: an agent may repeat
// what it was told in an error.
const secretPrefix = "pdl-"

// endpoint is one thread's address.
type endpoint struct {
	m        *Manager
	threadID string
	secret   string
	server   *sdk.Server
	handler  http.Handler

	open    context.Context // done when the address is void
	void    context.CancelFunc
	serving sync.WaitGroup // HTTP requests

	mu       sync.Mutex
	closed   bool
	witness  thread.ToolWitness // nil = none yet
	number   uint64             // of the last request
	requests map[string]request // those that carry a message, by number

	// A session is counted by its request until it is initialized, and by its id
	// from then on, so that none counts twice while its request is still served.
	opening  map[string]struct{} // numbers of requests that may still open a session
	sessions map[string]struct{} // ids; those that have ended are forgotten at the next count
}

// request is an HTTP request that carries one message.
type request struct {
	ctx context.Context // done when the peer is gone
	id  string          // of the message, as written; "" = it wants no answer
}

func newEndpoint(m *Manager, threadID string, skills tool.Skills) *endpoint {
	e := &endpoint{
		m: m, threadID: threadID, secret: secretPrefix + loopback.NewToken(),
		requests: map[string]request{}, opening: map[string]struct{}{}, sessions: map[string]struct{}{},
	}
	e.open, e.void = context.WithCancel(context.Background())
	e.server = newServer(skills, e.call)
	e.server.AddReceivingMiddleware(e.noteSession)
	e.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return e.server }, &sdk.StreamableHTTPOptions{
		SessionTimeout:      m.cfg.Durations.Idle,
		MaxRequestBodyBytes: maxBodyBytes,
	})
	return e
}

func (e *endpoint) admit(w thread.ToolWitness) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.witness = w
}

// close ends every protocol session and waits for what is served.
func (e *endpoint) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.void() // calls that wait would hold up their sessions
	e.closeSessions()
	e.serving.Wait()
	e.closeSessions() // of a request that had come before
}

func (e *endpoint) closeSessions() {
	for s := range e.server.Sessions() {
		_ = s.Close() // the peer hears of it or is gone
	}
}

// serve serves one HTTP request that knows the secret.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) {
	opens := r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == ""
	number, refusal := e.enter(opens)
	if refusal != "" {
		http.Error(w, refusal, http.StatusServiceUnavailable)
		return
	}
	defer e.leave(number)
	wire := http.NewResponseController(w)
	out := &patientWriter{ResponseWriter: w, wire: wire, patience: e.m.cfg.Durations.IO}
	defer func() { // the end of the answer is written when we have returned
		_ = wire.SetWriteDeadline(time.Now().Add(e.m.cfg.Durations.IO))
	}()
	if r.Method != http.MethodPost {
		e.handler.ServeHTTP(out, r)
		return
	}
	_ = wire.SetReadDeadline(time.Now().Add(e.m.cfg.Durations.IO))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil { // the deadline stays, or the server would wait for the rest
		http.Error(w, "The request cannot be read, or is longer than 1 MiB.", http.StatusRequestEntityTooLarge)
		return
	}
	// From here it would look like the peer's leaving.
	_ = wire.SetReadDeadline(time.Time{})
	id, refusal := messageID(body)
	if refusal != "" {
		http.Error(w, refusal, http.StatusBadRequest)
		return
	}
	e.begin(number, request{r.Context(), id})
	r.Header.Set(requestHeader, number)
	r.Body = io.NopCloser(bytes.NewReader(body))
	e.handler.ServeHTTP(out, r)
}

// enter counts a request in and numbers it, unless the address is void or has all
// the sessions it may have; then it says why not.
func (e *endpoint) enter(opens bool) (number, refusal string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return "", "This address is not valid any more."
	}
	if opens && e.countSessions() >= maxSessions {
		return "", "Too many sessions are open at this address."
	}
	e.number++
	number = strconv.FormatUint(e.number, 10)
	if opens {
		e.opening[number] = struct{}{}
	}
	e.serving.Add(1)
	return number, ""
}

// countSessions counts the sessions that are open or may become so. Called with mu
// held.
func (e *endpoint) countSessions() int {
	live := map[string]struct{}{}
	for s := range e.server.Sessions() {
		if _, noted := e.sessions[s.ID()]; noted {
			live[s.ID()] = struct{}{}
		}
	}
	e.sessions = live
	return len(e.opening) + len(live)
}

// noteSession passes the count of a session from its request to its id. A request
// that opens none keeps it until it is over; the SDK has closed what it made by then.
func (e *endpoint) noteSession(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if first, ok := req.(*sdk.ServerRequest[*sdk.InitializeParams]); ok {
			e.mu.Lock()
			delete(e.opening, first.Extra.Header.Get(requestHeader))
			e.sessions[first.Session.ID()] = struct{}{}
			e.mu.Unlock()
		}
		return next(ctx, method, req)
	}
}

func (e *endpoint) begin(number string, r request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests[number] = r
}

func (e *endpoint) leave(number string) {
	e.mu.Lock()
	delete(e.requests, number)
	delete(e.opening, number)
	e.mu.Unlock()
	e.serving.Done()
}

// messageID returns the id of the one JSON-RPC message that a body is, as it is
// written there, or says why there is none to be had.
func messageID(body []byte) (id, refusal string) {
	if jsontext.Value(body).Kind() == '[' {
		return "", "Send one message a request."
	}
	var m struct {
		ID jsontext.Value `json:"id"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return "", "The request is no JSON-RPC message."
	}
	if len(m.ID) > maxRPCIDBytes {
		return "", "The message's id is too long."
	}
	return string(m.ID), ""
}

// call carries out a call that came over HTTP.
func (e *endpoint) call(ctx context.Context, req *sdk.CallToolRequest, name string) (jsontext.Value, error) {
	e.mu.Lock()
	from, ok := e.requests[req.Extra.Header.Get(requestHeader)]
	witness := e.witness
	e.mu.Unlock()
	if !ok {
		return nil, context.Canceled // its peer has left already
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(from.ctx, cancel)()
	defer context.AfterFunc(e.open, cancel)()
	defer signsOfLife(ctx, req, e.m.cfg.Durations.Progress)()
	if witness == nil {
		return nil, fault.New(fault.ThreadAccessDenied, "The tools of this application are not open to this conversation.").With("toolName", name)
	}
	if err := witness.Announced(ctx, req.Params.Name); err != nil {
		return nil, err
	}
	e.m.cfg.Log.Debug().Str("thread", e.threadID).Int("bytes", len(req.Params.Arguments)).Msg("tool call over MCP")
	return e.m.Threads.CallTool(ctx, thread.ToolRequest{
		ThreadID: e.threadID,
		CallID:   req.Session.ID() + "/" + from.id,
		Name:     name,
		Args:     arguments(req),
	})
}

// patientWriter gives the peer a limited time to take each write.
type patientWriter struct {
	http.ResponseWriter
	wire     *http.ResponseController
	patience time.Duration
}

func (w *patientWriter) Write(b []byte) (int, error) {
	_ = w.wire.SetWriteDeadline(time.Now().Add(w.patience))
	return w.ResponseWriter.Write(b)
}

// Unwrap lets the writer be flushed.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
