package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// rawWeb is a WebSocket whose frames a test writes byte for byte.
func rawWeb(t *testing.T, d *daemon) *websocket.Conn {
	t.Helper()
	ws, res, err := websocket.DefaultDialer.Dial("ws://"+d.info.HTTPEndpoint+"/v1/ipc", http.Header{"Authorization": {"Bearer " + d.info.Token}})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	t.Cleanup(func() { ws.Close() })
	return ws
}

// farewell reads to the end of a WebSocket and returns the code with which it was
// closed, 0 for none.
func farewell(ws *websocket.Conn) (int, error) {
	if err := ws.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	for {
		_, _, err := ws.ReadMessage()
		var bye *websocket.CloseError
		switch {
		case errors.As(err, &bye) && bye.Code != websocket.CloseAbnormalClosure:
			return bye.Code, nil
		case isTimeout(err):
			return 0, err
		case err != nil:
			return 0, nil
		}
	}
}

func TestDrippingOpeningsAreClosedInTime(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t), "PEDELEC_DURATIONS=first-request=1s")
	openings := map[string]struct{ endpoint, text string }{
		"TCP":       {d.info.Endpoint, strings.Repeat(" ", 1000)},
		"HTTP":      {d.info.HTTPEndpoint, "GET /healthz HTTP/1.1\r\nHost: " + d.info.HTTPEndpoint + "\r\nX: " + strings.Repeat("x", 1000)},
		"WebSocket": {d.info.HTTPEndpoint, "GET /v1/ipc HTTP/1.1\r\nHost: " + d.info.HTTPEndpoint + "\r\nUpgrade: websocket\r\nX: " + strings.Repeat("x", 1000)},
	}
	var all sync.WaitGroup
	for name, o := range openings {
		for range 10 {
			nc, err := net.Dial("tcp", o.endpoint)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { nc.Close() })
			all.Go(func() {
				drip := time.NewTicker(50 * time.Millisecond)
				defer drip.Stop()
				for n := range len(o.text) {
					<-drip.C
					if _, err := io.WriteString(nc, o.text[n:n+1]); err != nil {
						return // closed, as it should be
					}
				}
				t.Errorf("over %s a client was waited for that sent %d bytes in %v", name, len(o.text), 50*time.Second)
			})
		}
	}
	d.pong()
	all.Wait()
	d.pong()
}

// TestAnnouncedBodiesThatNeverComeFreeTheirConnections needs no token for it, not
// even the right Host.
func TestAnnouncedBodiesThatNeverComeFreeTheirConnections(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t))
	id := newThread(t, d.dial())
	here := d.info.HTTPEndpoint
	var all sync.WaitGroup
	for _, r := range [][3]string{
		{"GET", "/healthz", here}, {"GET", "/healthz", "rebound.example"}, {"GET", "/metrics", here}, {"GET", "/nothing", here},
		{"GET", "/v1/ipc", here}, {"POST", "/mcp/" + id, here}, {"POST", "/inspect/session", here}, {"GET", "/inspect", here},
		{"PUT", "/uploads/none", here}, {"GET", "/downloads/none", here},
	} {
		nc, err := net.Dial("tcp", here)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(nc, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\n", r[0], r[1], r[2]); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if answer, err := io.ReadAll(nc); err != nil || len(answer) == 0 {
				t.Errorf("%s %s, host %s: %d bytes of an answer, then %v", r[0], r[1], r[2], len(answer), err)
			}
		})
	}
	all.Wait()
}

func TestMessagesOfEndlessFragmentsAreRefused(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t), "PEDELEC_DURATIONS=ping=200ms;pong=1s")
	// Masked with zeros, which changes nothing.
	first := func(size byte) []byte {
		return append([]byte{0x01, 0x80 | size, 0, 0, 0, 0}, bytes.Repeat([]byte{' '}, int(size))...)
	}
	next := func(size byte) []byte {
		return append([]byte{0x00, 0x80 | size, 0, 0, 0, 0}, bytes.Repeat([]byte{' '}, int(size))...)
	}
	for name, tt := range map[string]struct {
		size byte
		want int // close code
	}{
		"of spaces":  {100, websocket.CloseMessageTooBig},
		"of nothing": {0, 0}, // as one that says nothing
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := rawWeb(t, d)
			ws.SetPingHandler(func(string) error { return nil }) // no pong shows that it lives
			end := make(chan int, 1)
			go func() {
				code, err := farewell(ws)
				if err != nil {
					t.Error(err)
				}
				_ = ws.NetConn().Close() // ends the writing
				end <- code
			}()
			_, err := ws.NetConn().Write(first(tt.size))
			many := bytes.Repeat(next(tt.size), 1000)
			for err == nil {
				_, err = ws.NetConn().Write(many)
			}
			if code := <-end; code != tt.want {
				t.Errorf("closed with %d, want %d", code, tt.want)
			}
		})
	}
}

func TestCompressedFramesAreRefused(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t))
	ws := rawWeb(t, d)
	const textCompressed = 0x80 | 0x40 | 0x01
	if _, err := ws.NetConn().Write([]byte{textCompressed, 0x80 | 4, 0, 0, 0, 0, 0x4a, 0x4c, 0x04, 0x00}); err != nil {
		t.Fatal(err)
	}
	if code, err := farewell(ws); err != nil || code != websocket.CloseProtocolError {
		t.Errorf("closed with %d, %v", code, err)
	}
	d.pong()
}

func TestFloodsOfPingsLeaveTheConnectionUsable(t *testing.T) {
	t.Parallel()
	const pings = 200_000
	d := start(t, newHome(t))
	ws := rawWeb(t, d)
	read := make(chan error, 1)
	answered := func() {
		for {
			_, m, err := ws.ReadMessage()
			if err != nil || bytes.Contains(m, []byte(`"last"`)) {
				read <- err
				return
			}
		}
	}
	many := bytes.Repeat([]byte{0x89, 0x80 | 2, 0, 0, 0, 0, 'h', 'i'}, 1000)
	go answered()
	for range pings / 1000 {
		if _, err := ws.NetConn().Write(many); err != nil {
			t.Fatal(err)
		}
	}
	if err := ws.WriteMessage(websocket.TextMessage, []byte(`{"requestId":"last","type":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

func TestStormsOfRequestsToOneThreadHurtNobody(t *testing.T) {
	t.Parallel()
	const clients, rounds = 64, 20
	d := start(t, newHome(t), "PEDELEC_DURATIONS=linger=50ms;session=50ms")
	p := newPage(t, d, nil)
	p.busy()
	var all sync.WaitGroup
	for n := range clients {
		c, err := transports[n%2].open(d.info, nil)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer c.Close()
			for range rounds {
				for kind, payload := range map[string]object{
					"subscribe_thread":   {"threadId": p.id, "afterSeq": 0},
					"cancel_operation":   {"threadId": p.id, "operationId": "another"},
					"thread_snapshot":    {"threadId": p.id},
					"send_text":          {"threadId": p.id, "message": "echo no"},
					"submit_tool_result": {"threadId": p.id, "requestId": "none"},
				} {
					err := c.call(kind, payload, nil)
					switch codeOf(err) {
					case "", "THREAD_BUSY", "PENDING_TOOL_REQUEST_NOT_FOUND", "OVERLOADED":
					default:
						t.Errorf("%s: %v", kind, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	p.must(p.c.call("cancel_operation", object{"threadId": p.id}, nil))
	if op := p.send("echo calm"); p.says(op) != "calm" {
		t.Error("the thread does not go on")
	}
	p.c.Close()
	if err := awaitMetrics(d, map[string]float64{"pedelec_ipc_connections": 0, "pedelec_ipc_websockets": 0, "pedelec_ipc_subscriptions": 0, "pedelec_threads_loaded": 0, "pedelec_ipc_panics_total": 0, "pedelec_lifecycle_panics_total": 0}); err != nil {
		t.Error(err)
	}
}

func TestSubscriptionsOverTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	const limit, more = 64, 10
	d := start(t, newHome(t))
	asking := d.dial()
	var ids []string
	for range limit + more {
		ids = append(ids, newThread(t, asking))
	}
	for _, via := range transports {
		c, err := via.open(d.info, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		codes := map[string]int{}
		for range 3 {
			for _, id := range ids {
				codes[codeOf(c.call("subscribe_thread", object{"threadId": id}, nil))]++
			}
		}
		if codes[""] != 3*limit || codes["OVERLOADED"] != 3*more {
			t.Errorf("over %s: %v", via, codes)
		}
	}
}

// TestTheLargestMessagesFromManyClientsAreBounded sends messages of the largest size
// on many connections as fast as they go, without reading an answer.
func TestTheLargestMessagesFromManyClientsAreBounded(t *testing.T) {
	t.Parallel()
	const clients, messages = 50, 8
	const most = 256 << 20 // less than the messages together
	d := start(t, newHome(t))
	var all sync.WaitGroup
	for n := range clients {
		via := transports[n%2]
		c, err := via.open(d.info, nil)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer c.Close()
			for i := range messages {
				if err := c.send(padded(fmt.Sprint(i), maxIncomingLine)); err != nil {
					t.Errorf("over %s: %v", via, err)
					return
				}
			}
			for range messages {
				if m, err := c.next(2 * patience); err != nil || !m.OK && m.Err.Code != "OVERLOADED" {
					t.Errorf("over %s: %+v, %v", via, m, err)
					return
				}
			}
		})
	}
	all.Wait()
	m, err := readMetrics(d)
	if err != nil {
		t.Fatal(err)
	}
	if got := m["go_memstats_sys_bytes"]; got > most {
		t.Errorf("the daemon has taken %.0f MiB", got/(1<<20))
	}
	t.Logf("the daemon has taken %.0f MiB", m["go_memstats_sys_bytes"]/(1<<20))
}
