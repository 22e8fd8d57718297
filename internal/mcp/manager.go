package mcp

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// Route is what the HTTP listener's mux hands to a [Manager].
const Route = "/mcp/{threadId}"

// Threads carries out calls.
type Threads interface {
	// CallTool waits for the page's answer. When ctx ends, only this waiter is
	// forgotten.
	CallTool(ctx context.Context, r thread.ToolRequest) (jsontext.Value, error)
}

// Config is what a [Manager] is made of.
type Config struct {
	Durations Durations // zero = DefaultDurations
	Log       zerolog.Logger
}

// Manager keeps the addresses at which agents find the tools of their threads, in
// memory only: an agent of an earlier daemon gets a new one with its next session.
type Manager struct {
	// Threads and BaseURL are set before the first Open. BaseURL is the HTTP
	// listener's, like "http://127.0.0.1:4711".
	Threads Threads
	BaseURL string

	cfg   Config
	tasks sync.WaitGroup // ends of endpoints

	mu        sync.Mutex
	closed    bool
	endpoints map[string]*endpoint // by thread id
}

// New returns a manager without any address.
func New(cfg Config) *Manager {
	if cfg.Durations == (Durations{}) {
		cfg.Durations = DefaultDurations
	}
	return &Manager{cfg: cfg, endpoints: map[string]*endpoint{}}
}

// Open makes an address for a thread's tools and the secret that goes with it. A
// former one of the thread is void.
func (m *Manager) Open(threadID string, skills tool.Skills) (url, secret string) {
	e := newEndpoint(m, threadID, skills)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(threadID)
	if !m.closed {
		m.endpoints[threadID] = e
	}
	return m.BaseURL + "/mcp/" + threadID, e.secret
}

// Admit names who can tell whether a call comes from the thread's own agent. Until
// then, or with nil, none is accepted.
func (m *Manager) Admit(threadID string, w thread.ToolWitness) {
	if e := m.endpoint(threadID); e != nil {
		e.admit(w)
	}
}

// Close voids a thread's address. Calls that wait are forgotten; it waits for
// nobody.
func (m *Manager) Close(threadID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(threadID)
}

// Shutdown voids every address and waits until nothing of them is left. An address
// that is opened afterwards is void.
func (m *Manager) Shutdown() {
	m.mu.Lock()
	m.closed = true
	for threadID := range m.endpoints {
		m.end(threadID)
	}
	m.mu.Unlock()
	m.tasks.Wait()
}

// end voids a thread's address. The mutex is held, so that no task begins while
// Shutdown waits for them.
func (m *Manager) end(threadID string) {
	if e := m.endpoints[threadID]; e != nil {
		delete(m.endpoints, threadID)
		m.tasks.Go(e.close)
	}
}

func (m *Manager) endpoint(threadID string) *endpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.endpoints[threadID]
}

// ServeHTTP serves [Route], with its own rules for Host, Origin and secret.
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		http.Error(w, "This is not served here.", http.StatusMisdirectedRequest)
		return
	}
	loopback.Guard{Port: local.Port}.Protect(loopback.Agent, http.HandlerFunc(m.serve)).ServeHTTP(w, r)
}

func (m *Manager) serve(w http.ResponseWriter, r *http.Request) {
	e := m.authorized(r)
	if e == nil {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "The address or its secret is not valid.", http.StatusUnauthorized)
		return
	}
	e.serve(w, r)
}

// authorized returns the endpoint that the request names, if it knows its secret.
// An unknown thread takes as long as a wrong secret.
func (m *Manager) authorized(r *http.Request) *endpoint {
	threadID := r.PathValue("threadId")
	if len(threadID) > maxThreadBytes {
		return nil
	}
	scheme, presented, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	e := m.endpoint(threadID)
	expected := ""
	if e != nil {
		expected = e.secret
	}
	if !loopback.TokenEqual(strings.TrimSpace(presented), expected) || !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	return e
}
