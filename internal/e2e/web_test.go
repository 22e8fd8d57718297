package e2e

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
)

// openWeb connects to a daemon's WebSocket as a native client that knows the
// token. Close must be called.
func openWeb(endpoint, token string) (*conn, error) {
	dialer := websocket.Dialer{HandshakeTimeout: patience}
	ws, res, err := dialer.Dial("ws://"+endpoint+"/v1/ipc", http.Header{"Authorization": {"Bearer " + token}})
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
