package ipc

import (
	"bytes"
	"context"
	"maps"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/loopback"
)

// rig is a server under test.
type rig struct {
	t        testing.TB
	threads  *memoryThreads
	settings *memorySettings
	origins  *memoryOrigins
	server   *Server
	web      *httptest.Server // nil until somebody dials it
	connect  func(testing.TB) client
	addr     string
	log      *syncBuffer
}

// newRig starts a server on loopback and stops it when the test is over.
func newRig(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, threads: newMemoryThreads(), settings: &memorySettings{}, origins: newMemoryOrigins(), log: &syncBuffer{}}
	cfg := Config{
		Threads: r.threads, Providers: r.settings, Settings: r.settings, Picker: r.settings, Operator: r.settings, Origins: r.origins, Assets: memoryAssets{}, Inspector: memoryInspector{},
		Version: "1.2.3", InstanceID: "instance", Token: testToken, Log: zerolog.New(r.log),
	}
	for _, f := range change {
		f(&cfg)
	}
	server, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.server = server
	l, err := loopback.Listen(context.Background(), "127.0.0.1:0", loopback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.ServeTCP(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != ErrServerClosed {
			t.Errorf("ServeTCP: %v", err)
		}
	})
	return r
}

// peer is a client that shows every byte.
type peer struct {
	t     testing.TB
	conn  *net.TCPConn
	lines lineScanner
}

func (r *rig) dial(t testing.TB) *peer {
	t.Helper()
	conn, err := net.Dial("tcp4", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: conn.(*net.TCPConn)}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { _ = conn.Close() })
	return p
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l)
		b.WriteByte('\n')
	}
	p.write(b.Bytes())
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// line returns the next line, failing the test when there is none.
func (p *peer) line() string {
	p.t.Helper()
	l, err := p.read()
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	return l
}

func (p *peer) read() (string, error) {
	for {
		if l, ok := p.lines.next(); ok {
			return string(l), nil
		}
		if _, err := p.lines.fill(p.conn, 2*maxBuffered); err != nil {
			return "", err
		}
	}
}

// ended fails the test unless the server has closed the connection without
// another line.
func (p *peer) ended() {
	p.t.Helper()
	if l, err := p.read(); err == nil {
		p.t.Fatalf("the connection is open and said %s", l)
	}
}

func (p *peer) halfClose() {
	p.t.Helper()
	if err := p.conn.CloseWrite(); err != nil {
		p.t.Fatal(err)
	}
}

// syncBuffer is a buffer that a logger may write to while a test reads it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// createThread makes a thread on a connection of its own and returns its id.
func (r *rig) createThread(t testing.TB) string {
	t.Helper()
	before := r.ids()
	p := r.dial(t)
	p.send(`{"requestId":"c","type":"create_thread","payload":{"provider":"opencode"}}`)
	p.line()
	for _, id := range r.ids() {
		if !slices.Contains(before, id) {
			return id
		}
	}
	t.Fatal("no thread was made")
	return ""
}

func (r *rig) ids() []string {
	r.threads.mu.Lock()
	defer r.threads.mu.Unlock()
	return slices.Sorted(maps.Keys(r.threads.threads))
}
