package inspect

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/thread"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rig is an inspector behind a real server.
type rig struct {
	testing.TB
	inspector *Inspector
	server    *httptest.Server
	threads   *memoryThreads
	peers     *memoryPeers
	log       lockedBuffer
	served    chan string // paths of requests whose handler has returned

	mu  sync.Mutex
	now time.Time
}

func newRig(t testing.TB, change ...func(*Config)) *rig {
	r := &rig{TB: t, threads: newMemoryThreads(), peers: &memoryPeers{}, now: testTime, served: make(chan string, 1000)}
	cfg := Config{
		Threads: r.threads, Runtimes: memoryRuntimes{}, Peers: r.peers, Log: zerolog.New(&r.log), Now: r.clock,
		Encode: Encoding{
			Snapshot: func(dst []byte, s *thread.Snapshot) []byte {
				return append(dst, `{"threadId":`+quote(s.ThreadID)+`,"latestSeq":`+strconv.FormatUint(s.LatestSeq, 10)+`}`...)
			},
			Summary: func(dst []byte, s *thread.Summary) []byte {
				return append(dst, `{"threadId":`+quote(s.ThreadID)+`}`...)
			},
			Event: func(dst []byte, id string, ev *thread.JournalEvent) []byte {
				return append(dst, `{"type":`+quote(ev.Kind.String())+`,"text":`+quote(ev.Text)+`}`...)
			},
			Runtime: func(dst []byte, r *thread.RuntimeInfo) []byte {
				return append(dst, `{"runtimeId":`+quote(r.RuntimeID)+`}`...)
			},
		},
		Poll: time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	r.inspector = New(cfg)
	handler := r.inspector.Handler()
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		handler.ServeHTTP(w, request)
		r.served <- request.URL.Path
	}))
	r.server.Config.ConnContext = KeepConn
	r.server.Start()
	t.Cleanup(func() {
		r.inspector.Close()
		r.server.Close()
	})
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// code returns the code of a fresh link.
func (r *rig) code() string {
	r.Helper()
	link, expires := r.inspector.NewLink(r.host())
	code, ok := strings.CutPrefix(link, r.server.URL+"/inspect/#")
	if !ok || len(code) != 64 || !expires.Equal(r.clock().Add(time.Minute)) {
		r.Fatalf("the link is %q until %v", link, expires)
	}
	return code
}

func (r *rig) host() string { return strings.TrimPrefix(r.server.URL, "http://") }

// ask sends one request and does not read the answer's body. The header named Host
// takes the place of the right one; an empty one is left out.
func (r *rig) ask(method, path, body string, header ...string) *http.Response {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), method, r.server.URL+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if method != http.MethodGet {
		request.Header.Set("Origin", r.server.URL)
	}
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			request.Host = header[i+1]
		case header[i+1] == "":
			request.Header.Del(header[i])
		default:
			request.Header.Set(header[i], header[i+1])
		}
	}
	transport := &http.Transport{DisableKeepAlives: true}
	got, err := transport.RoundTrip(request)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { got.Body.Close() })
	return got
}

// read is ask with the answer's body.
func (r *rig) read(method, path, body string, header ...string) (status int, text string) {
	r.Helper()
	got := r.ask(method, path, body, header...)
	b, err := io.ReadAll(got.Body)
	if err != nil {
		r.Fatal(err)
	}
	return got.StatusCode, string(b)
}

// enter exchanges a code and returns the answer.
func (r *rig) enter(code string, header ...string) *http.Response {
	r.Helper()
	return r.ask("POST", "/inspect/session", `{"code":"`+code+`"}`, header...)
}

// session returns the Cookie header of a browser that is let in.
func (r *rig) session() string {
	r.Helper()
	got := r.enter(r.code())
	if got.StatusCode != http.StatusNoContent {
		r.Fatalf("not let in: %d", got.StatusCode)
	}
	cookie := got.Cookies()[0]
	return cookie.Name + "=" + cookie.Value
}

// memoryThreads holds one thread, "t1".
type memoryThreads struct {
	mu     sync.Mutex
	query  thread.ListQuery
	caller thread.Caller
	events []thread.JournalEvent
	err    error
}

func newMemoryThreads() *memoryThreads { return &memoryThreads{} }

// say adds an event.
func (m *memoryThreads) say(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ev := thread.JournalEvent{Event: thread.Event{Kind: thread.EventAssistantMessage, Seq: uint64(len(m.events) + 1), Text: text}}
	m.events = append(m.events, ev)
}

func (m *memoryThreads) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memoryThreads) find(c thread.Caller, id string) error {
	m.caller = c
	if m.err != nil {
		return m.err
	}
	if id != "t1" {
		return fault.New(fault.ThreadNotFound, "")
	}
	return nil
}

func (m *memoryThreads) List(_ context.Context, c thread.Caller, q thread.ListQuery) (thread.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.query = q
	return thread.Page{Threads: []thread.Summary{{ThreadID: "t1"}, {ThreadID: "t2"}}, Next: "t2"}, m.find(c, "t1")
}

func (m *memoryThreads) Snapshot(_ context.Context, c thread.Caller, id string) (thread.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return thread.Snapshot{ThreadID: id, LatestSeq: uint64(len(m.events))}, m.find(c, id)
}

func (m *memoryThreads) ReadEvents(_ context.Context, c thread.Caller, id string, after uint64, limit int) (thread.EventPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rest := m.events[min(after, uint64(len(m.events))):]
	rest = rest[:min(limit, len(rest))]
	return thread.EventPage{Events: rest, NextSeq: after + uint64(len(rest))}, m.find(c, id)
}

type memoryRuntimes struct{}

func (memoryRuntimes) Runtimes() []thread.RuntimeInfo {
	return []thread.RuntimeInfo{{RuntimeID: "r1", RSSBytes: 1 << 20}, {RuntimeID: "r2"}}
}

// memoryPeers lets in whom it is told to.
type memoryPeers struct {
	mu      sync.Mutex
	foreign bool
}

func (m *memoryPeers) Check(net.Conn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.foreign {
		return loopback.ErrForeignPeer
	}
	return nil
}

func (m *memoryPeers) Supported() bool { return true }

func (m *memoryPeers) setForeign() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.foreign = true
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
