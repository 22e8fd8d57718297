package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/websocket"
)

// openWeb connects to a daemon's WebSocket as a native client that knows the
// token. Close must be called.
func openWeb(endpoint, token string) (*conn, error) { return openWebOver(endpoint, token, net.Dial) }

// openWebOver is openWeb over a connection that the caller makes.
func openWebOver(endpoint, token string, dial func(network, address string) (net.Conn, error)) (*conn, error) {
	return openSocket(endpoint, http.Header{"Authorization": {"Bearer " + token}}, dial)
}

// openPage connects as a page of an origin does, with a version of the SDK.
func openPage(endpoint, origin string) (*conn, error) {
	c, err := openSocket(endpoint, http.Header{"Origin": {origin}}, net.Dial)
	if err == nil {
		c.version = "1.0.0"
	}
	return c, err
}

func openSocket(endpoint string, header http.Header, dial func(network, address string) (net.Conn, error)) (*conn, error) {
	dialer := websocket.Dialer{HandshakeTimeout: patience, NetDial: dial}
	ws, res, err := dialer.Dial("ws://"+endpoint+"/v1/ipc", header)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	return newConn(&webConn{Conn: ws.NetConn(), ws: ws}), nil
}

// webConn is a WebSocket as a stream of lines: each message is one.
type webConn struct {
	net.Conn
	ws   *websocket.Conn
	rest bytes.Buffer // of a message that was received
}

// Write sends complete lines.
func (c *webConn) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if err := c.ws.WriteMessage(websocket.TextMessage, bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c *webConn) SetWriteDeadline(t time.Time) error { return c.ws.SetWriteDeadline(t) }

// Read returns what was received. A close frame is the end of the stream.
func (c *webConn) Read(p []byte) (int, error) {
	if c.rest.Len() == 0 {
		kind, message, err := c.ws.ReadMessage()
		var bye *websocket.CloseError
		if errors.As(err, &bye) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		if kind != websocket.TextMessage || bytes.ContainsRune(message, '\n') {
			return 0, errors.New("a message came that is no line of text")
		}
		c.rest.Write(message)
		c.rest.WriteByte('\n')
	}
	return c.rest.Read(p)
}

// Close leaves as programs do that end: without a word.
func (c *webConn) Close() error { return c.ws.Close() }

// TestRequestsToAThreadBeginInOrderOverAWebSocket sends a turn and its
// cancellation at once: the cancellation never comes first.
func TestRequestsToAThreadBeginInOrderOverAWebSocket(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t))
	c, err := openWeb(d.info.HTTPEndpoint, d.info.Token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var made snapshot
	if err := c.call("create_thread", object{"provider": "opencode"}, &made); err != nil {
		t.Fatal(err)
	}
	for round := range 30 {
		op := fmt.Sprintf("op%d", round)
		post := func(kind string, payload object) string {
			t.Helper()
			b, err := json.Marshal(payload)
			if err != nil {
				t.Fatal(err)
			}
			id, line, err := c.request(envelope{Type: kind, Payload: b})
			if err == nil {
				err = c.send(line)
			}
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		sent := post("send_text", object{"threadId": made.ThreadID, "message": "hang", "operationId": op})
		cancelled := post("cancel_operation", object{"threadId": made.ThreadID, "operationId": op})
		want := map[string]string{sent: op, cancelled: `"cancelled":true`}
		for len(want) > 0 {
			m, err := c.next(patience)
			if err != nil {
				t.Fatal(err)
			}
			if !m.OK || !strings.Contains(string(m.Result), want[m.RequestID]) {
				t.Fatalf("round %d: %+v", round, m)
			}
			delete(want, m.RequestID)
		}
	}
}
