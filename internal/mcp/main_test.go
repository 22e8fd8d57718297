package mcp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/leak"
	"github.com/pedelec/pedelec-core/internal/provider/scripted"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// agentEnv makes the test binary an agent.
const agentEnv = "PEDELEC_MCP_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) != "" {
		os.Exit(scripted.Run(context.Background(), os.Stdin, os.Stdout, os.Stderr, os.Args[1:], os.Environ()))
	}
	leak.VerifyTestMain(m)
}

// dotted has a name that models may not write.
const dotted = "ui.open"

var paintTools = tool.Skills{Guidance: "Paint.", Tools: []tool.Tool{
	{Name: "paint", Description: "Paints.", ArgsSchema: jsontext.Value(`{"type":"object","properties":{"color":{"type":"string"}}}`)},
	{Name: dotted, Description: "Opens.", ArgsSchema: jsontext.Value(`{"$ref":"#/$defs/args","$defs":{"args":{"type":"object"}}}`)},
}}

// stand is a manager behind a real listener, with threads that answer as told.
type stand struct {
	testing.TB
	manager *Manager
	server  *httptest.Server
	log     lockedBuffer

	mu      sync.Mutex
	calls   []thread.ToolRequest
	answer  func(ctx context.Context, r thread.ToolRequest) (jsontext.Value, error)
	refusal error // of the witness
	asked   []string
}

func newStand(t testing.TB, shorten func(*Durations)) *stand {
	s := &stand{TB: t}
	d := DefaultDurations
	if shorten != nil {
		shorten(&d)
	}
	s.manager = New(Config{Durations: d, Log: zerolog.New(&s.log)})
	mux := http.NewServeMux()
	mux.Handle(Route, s.manager)
	s.server = httptest.NewServer(mux)
	s.manager.Threads, s.manager.BaseURL = s, s.server.URL
	s.answer = func(_ context.Context, r thread.ToolRequest) (jsontext.Value, error) { return r.Args, nil }
	t.Cleanup(func() {
		s.manager.Shutdown()
		s.server.Close()
	})
	return s
}

func (s *stand) CallTool(ctx context.Context, r thread.ToolRequest) (jsontext.Value, error) {
	s.mu.Lock()
	s.calls = append(s.calls, r)
	answer := s.answer
	s.mu.Unlock()
	return answer(ctx, r)
}

func (s *stand) Announced(_ context.Context, modelName string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, modelName)
	return s.refusal
}

func (s *stand) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *stand) made() []thread.ToolRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]thread.ToolRequest(nil), s.calls...)
}

// openThread makes a thread's address and lets it be called.
func (s *stand) openThread(threadID string) (url, secret string) {
	url, secret = s.manager.Open(threadID, paintTools)
	s.manager.Admit(threadID, s)
	return url, secret
}

// reach opens a thread for a client without options.
func (s *stand) reach(threadID string) (url, secret string, options *sdk.ClientOptions) {
	url, secret = s.openThread(threadID)
	return url, secret, nil
}

// client connects an MCP client, which must succeed.
func (s *stand) client(url, secret string, options *sdk.ClientOptions) *sdk.ClientSession {
	s.Helper()
	session, err := s.connect(url, secret, options)
	if err != nil {
		s.Fatal(err)
	}
	return session
}

func (s *stand) connect(url, secret string, options *sdk.ClientOptions) (*sdk.ClientSession, error) {
	transport := &http.Transport{}
	s.Cleanup(transport.CloseIdleConnections)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(s.Context(), &sdk.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer{secret, transport}}, MaxRetries: -1,
	}, nil)
	if err == nil {
		s.Cleanup(func() { _ = session.Close() }) // the server may be gone already
	}
	return session, err
}

// bearer proves itself with every request.
type bearer struct {
	secret string
	next   http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.secret)
	return b.next.RoundTrip(r)
}

func (s *stand) call(session *sdk.ClientSession, name string, args any) *sdk.CallToolResult {
	s.Helper()
	result, err := session.CallTool(s.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		s.Fatal(err)
	}
	return result
}

func text(r *sdk.CallToolResult) string {
	var b bytes.Buffer
	for _, c := range r.Content {
		fmt.Fprint(&b, c.(*sdk.TextContent).Text)
	}
	return b.String()
}

// post sends one request without the help of a client.
func (s *stand) post(url, body string, header ...string) (status int, answer string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer got.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(got.Body)
	return got.StatusCode, b.String()
}

// within waits for a channel to be closed or to deliver.
func within[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
