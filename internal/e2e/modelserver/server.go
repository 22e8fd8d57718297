package modelserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// maxBody is the longest request that is read, in bytes. Agents send whole
// conversations.
const maxBody = 64 << 20

// Message is one entry of the conversation that a client sent.
type Message struct {
	Role string // system, user, assistant, tool
	Text string
}

// Request is what a client asked of the model.
type Request struct {
	Path     string
	Model    string
	Messages []Message
	Tools    []string // names of the tools on offer
	Stream   bool
	Body     jsontext.Value // all of it
	Aborted  bool           // the client went away before the answer was complete
}

// LastUserText returns the text of the last message of the user; "" = none.
func (r Request) LastUserText() string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			return m.Text
		}
	}
	return ""
}

// ToolAnswered reports whether a tool's result came after the last user text.
func (r Request) ToolAnswered() bool {
	for _, m := range slices.Backward(r.Messages) {
		switch m.Role {
		case "tool":
			return true
		case "user":
			return false
		}
	}
	return false
}

// Server is a running model service. Make one with [Start].
type Server struct {
	// URL is where it listens, such as http://127.0.0.1:4711.
	URL string

	http   *http.Server
	cancel context.CancelFunc
	done   chan error

	mu       sync.Mutex
	requests []*Request
	changed  chan struct{} // closed and replaced when requests changes
	count    int           // answers begun, for their ids
}

// Start listens on a free port of loopback.
func Start() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("model server: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		URL: "http://" + l.Addr().String(), cancel: cancel,
		done: make(chan error, 1), changed: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.serveChat)
	mux.HandleFunc("POST /v1/responses", s.serveResponses)
	mux.HandleFunc("POST /v1/messages", s.serveMessages)
	mux.HandleFunc("POST /v1/messages/count_tokens", serveCount)
	mux.HandleFunc("GET /v1/models", serveModels)
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Close ends all requests and waits for the listener.
func (s *Server) Close() error {
	s.cancel()
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Requests returns what was asked so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Request, len(s.requests))
	for i, r := range s.requests {
		all[i] = *r
	}
	return all
}

// Await waits for a request that satisfies match, also one that came before.
func (s *Server) Await(ctx context.Context, match func(Request) bool) (Request, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		all := s.Requests()
		if i := slices.IndexFunc(all, match); i >= 0 {
			return all[i], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, fmt.Errorf("no such request among %d: %w", len(all), ctx.Err())
		}
	}
}

// record keeps a request and returns the number of its answer.
func (s *Server) record(r *Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	s.count++
	s.announce()
	return s.count
}

// abort notes that the client of a request went away.
func (s *Server) abort(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Aborted = true
	s.announce()
}

func (s *Server) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func readBody(r *http.Request) (jsontext.Value, error) {
	return io.ReadAll(io.LimitReader(r.Body, maxBody))
}

func serveModels(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"test-model","object":"model","created":1,"owned_by":"test"}]}`)
}
