package ipc

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// memoryOrigins is an OriginStore in memory.
type memoryOrigins struct {
	mu     sync.Mutex
	values map[string][]byte
	fail   error
}

func newMemoryOrigins() *memoryOrigins { return &memoryOrigins{values: map[string][]byte{}} }

func (m *memoryOrigins) All() (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	return maps.Clone(m.values), nil
}

func (m *memoryOrigins) Put(origin string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail == nil {
		m.values[origin] = value
	}
	return m.fail
}

func (m *memoryOrigins) Delete(origin string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail == nil {
		delete(m.values, origin)
	}
	return m.fail
}

// webPeer is a client over a WebSocket.
type webPeer struct {
	t  testing.TB
	ws *websocket.Conn
}

// client is a peer over either transport.
type client interface {
	send(requests ...string)
	line() string
	// halfClose says that nothing more will be sent, where that can be said.
	halfClose()
	// ended fails the test unless the server has closed the connection without
	// another word.
	ended()
}

// onBoth runs a test once over each transport.
func onBoth(t *testing.T, test func(*testing.T, *rig)) {
	t.Run("TCP", func(t *testing.T) {
		r := newRig(t)
		r.connect = func(t testing.TB) client { return r.dial(t) }
		test(t, r)
	})
	t.Run("WebSocket", func(t *testing.T) {
		r := newRig(t)
		r.connect = func(t testing.TB) client { return r.dialWeb(t, native()) }
		test(t, r)
	})
}

// native is the header of a client that is no page.
func native() http.Header { return http.Header{"Authorization": {"Bearer " + testToken}} }

// page is the header of a page's client.
func page(origin string) http.Header { return http.Header{"Origin": {origin}} }

// tryWeb asks for a WebSocket and returns the status of a refusal.
func (r *rig) tryWeb(t testing.TB, header http.Header) (*webPeer, int) {
	t.Helper()
	if r.web == nil {
		r.web = httptest.NewServer(r.server.HTTPHandler())
		r.t.Cleanup(r.web.Close) // a subtest may be the first to ask
	}
	dialer := websocket.Dialer{HandshakeTimeout: 20 * time.Second, Subprotocols: []string{Subprotocol}, EnableCompression: true}
	ws, res, err := dialer.Dial("ws"+strings.TrimPrefix(r.web.URL, "http")+SocketPath, header)
	if err != nil {
		if res == nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return nil, res.StatusCode
	}
	if got := ws.Subprotocol(); got != Subprotocol {
		t.Errorf("subprotocol %q", got)
	}
	if got := res.Header.Get("Sec-Websocket-Extensions"); got != "" {
		t.Errorf("extensions %q", got)
	}
	_ = ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { _ = ws.Close() })
	return &webPeer{t, ws}, res.StatusCode
}

func (r *rig) dialWeb(t testing.TB, header http.Header) *webPeer {
	t.Helper()
	p, status := r.tryWeb(t, header)
	if p == nil {
		t.Fatalf("the WebSocket was refused: %d", status)
	}
	return p
}

func (p *webPeer) send(messages ...string) {
	p.t.Helper()
	for _, m := range messages {
		p.write(websocket.TextMessage, m)
	}
}

func (p *webPeer) write(kind int, message string) {
	p.t.Helper()
	if err := p.ws.WriteMessage(kind, []byte(message)); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// line returns the next message.
func (p *webPeer) line() string {
	p.t.Helper()
	m, err := p.read()
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	return m
}

func (p *webPeer) read() (string, error) {
	kind, m, err := p.ws.ReadMessage()
	if err == nil && kind != websocket.TextMessage {
		p.t.Errorf("a message of kind %d came", kind)
	}
	return string(m), err
}

func (p *webPeer) halfClose() {}

func (p *webPeer) ended() { p.t.Helper(); p.closed() }

// closed returns the code with which the server closes the connection, failing
// the test when something else comes first.
func (p *webPeer) closed() int {
	p.t.Helper()
	m, err := p.read()
	if err == nil {
		p.t.Fatalf("the connection is open and said %s", m)
	}
	return closeCode(err)
}

// closeCode returns the code of a close frame, or -1.
func closeCode(err error) int {
	if bye, ok := err.(*websocket.CloseError); ok {
		return bye.Code
	}
	return -1
}

// socketOf returns the server's end of a peer's connection.
func (r *rig) socketOf(p *webPeer) *socket {
	p.t.Helper()
	for range 1000 {
		r.server.mu.Lock()
		for c := range r.server.sockets.open {
			if c.nc.RemoteAddr().String() == p.ws.LocalAddr().String() {
				r.server.mu.Unlock()
				return c
			}
		}
		r.server.mu.Unlock()
		p.send(ping("are you there")) // answered once the connection is known
		p.line()
	}
	p.t.Fatal("the server has no such connection")
	return nil
}
