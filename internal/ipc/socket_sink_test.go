package ipc

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/websocket"

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
