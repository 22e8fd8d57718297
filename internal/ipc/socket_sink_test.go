package ipc

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestManySmallWritesGoOutTogether(t *testing.T) {
	conn := newSlowConn()
	for range cap(conn.proceed) {
		conn.proceed <- nil
	}
	g := &gatherer{Conn: conn}
	write := func(b []byte) {
		t.Helper()
		if n, err := g.Write(b); n != len(b) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	write([]byte("alone"))
	g.begin()
	for i := range 3 {
		write(fmt.Append(nil, i))
	}
	if err := g.end(); err != nil {
		t.Fatal(err)
	}
	write([]byte("after"))
	if want := []string{"alone", "012", "after"}; !slices.Equal(conn.writes, want) {
		t.Errorf("written: %q", conn.writes)
	}

	conn.writes = nil
	g.begin()
	for range 3 {
		write(bytes.Repeat([]byte("x"), writeBatchBytes/2))
	}
	if len(conn.writes) != 1 || len(conn.writes[0]) != writeBatchBytes {
		t.Errorf("%d writes: more than a batch was held back", len(conn.writes))
	}
	if err := g.end(); err != nil {
		t.Fatal(err)
	}
	if g.rest(); g.held != nil {
		t.Error("a large buffer was kept")
	}
}

func TestAFailedFlushIsReported(t *testing.T) {
	conn := newSlowConn()
	g := &gatherer{Conn: conn}
	g.begin()
	_, _ = g.Write([]byte("x"))
	conn.proceed <- net.ErrClosed
	if err := g.end(); err == nil {
		t.Error("no error")
	}
}

// TestAGroupOverAWebSocketHasNothingOfOursInBetween writes groups of events and
// answers at the same time.
func TestAGroupOverAWebSocketHasNothingOfOursInBetween(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	p := r.dialWeb(t, native())
	p.send(subscribe("s", id))
	p.line()
	const groups, size = 100, 3
	told := make(chan struct{})
	go func() {
		defer close(told)
		for range groups {
			group := slices.Repeat([]thread.Event{delta("g")}, size)
			for i := range group[:size-1] {
				group[i].Grouped = true
			}
			r.threads.tell(id, group...)
		}
	}()
	for range groups {
		p.send(ping("p"))
	}
	inGroup := 0
	for answers, events := 0, 0; answers < groups || events < groups*size; {
		if line := p.line(); line[:12] == `{"requestId"` {
			if answers++; inGroup%size != 0 {
				t.Fatalf("an answer came inside a group, behind event %d", inGroup)
			}
			continue
		}
		events++
		inGroup++
	}
	<-told
}

// TestAFarewellInsideABatchGoesOut closes while events are held back: the batch ends
// there, but the client is told why.
func TestAFarewellInsideABatchGoesOut(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, native())
	c := r.socketOf(p)
	sink := c.out.sink.(*messageSink)
	// The writer of the answer that the client has read may not be back yet.
	if _, err := c.out.events(nil, func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	sink.gather.begin()
	c.sayClose(farewellRevoked.code, farewellRevoked.why, time.Second)
	if err := sink.write([][]byte{[]byte("{}\n"), []byte("{}\n")}); !errors.Is(err, websocket.ErrCloseSent) {
		t.Errorf("written behind the close frame: %v", err)
	}
	if err := p.ws.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.ws.ReadMessage(); !websocket.IsCloseError(err, farewellRevoked.code) {
		t.Errorf("the client read %v", err)
	}
}

// TestAWriterThatIsStuckDoesNotHoldUpTheReader keeps the way out shut while pings
// and a request come in.
func TestAWriterThatIsStuckDoesNotHoldUpTheReader(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	p := r.dialWeb(t, native())
	gather := r.socketOf(p).out.sink.(*messageSink).gather
	release := r.hold("Snapshot")
	gather.mu.Lock()
	for i := range 100 {
		if err := p.ws.WriteControl(websocket.PingMessage, fmt.Append(nil, i), time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	p.send(snapshotOf("last", id))
	r.awaitEntered("Snapshot", 1)
	gather.mu.Unlock()
	release()
	last := ""
	p.ws.SetPongHandler(func(text string) error { last = text; return nil })
	for last != "99" { // one pong was on its way; of the others only the last is owed
		p.send(ping("p"))
		p.line()
	}
}

// renewedConn is a connection whose first write outlives its limit, as one over a
// standstill of the process does, which begins anew.
type renewedConn struct {
	net.Conn
	limit   time.Time
	renewed bool
}

func (c *renewedConn) SetWriteDeadline(at time.Time) error {
	c.limit = at
	return c.Conn.SetWriteDeadline(at)
}

func (c *renewedConn) Write(p []byte) (int, error) {
	if !c.renewed {
		c.renewed = true
		<-time.After(time.Until(c.limit))
		if err := c.Conn.SetWriteDeadline(time.Time{}); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// TestTheRestOfABatchBehindAStandstillHasTheTimeOfAWrite writes a batch of several
// writes of which the first was renewed.
func TestTheRestOfABatchBehindAStandstillHasTheTimeOfAWrite(t *testing.T) {
	line := append(bytes.Repeat([]byte("x"), writeBatchBytes), '\n')
	written := make(chan error, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := &hijacker{ResponseWriter: w, peers: loopback.NewPeerCheck(nil), timeout: 50 * time.Millisecond}
		ws, err := (&websocket.Upgrader{}).Upgrade(h, r, nil)
		if err == nil {
			h.gather.Conn = &renewedConn{Conn: h.gather.Conn}
			err = (&messageSink{ws: ws, gather: h.gather}).write([][]byte{line, line, line})
			_ = ws.Close() // all was written, or nothing can be
		}
		written <- err
	}))
	defer web.Close()
	ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(web.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.Close() }() // the server has closed it
	for range 3 {
		if _, message, err := ws.ReadMessage(); err != nil || len(message) != writeBatchBytes {
			t.Errorf("%d bytes, %v", len(message), err)
			break
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
