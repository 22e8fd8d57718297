package ipc

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// FuzzSocketFrames sends any bytes as frames: whatever they are, the connection
// ends when the client leaves, nothing panics, and what was said is text.
func FuzzSocketFrames(f *testing.F) {
	masked := func(first byte, text string) []byte {
		b := []byte{first, 0x80 | byte(len(text)), 0, 0, 0, 0}
		return append(b, text...)
	}
	f.Add(masked(0x81, `{"requestId":"a","type":"ping"}`))
	f.Add(append(masked(0x01, `{"requestId":"a",`), masked(0x80, `"type":"ping"}`)...))
	f.Add(masked(0x82, "binary"))
	f.Add(masked(0x81, "\xff"))
	f.Add(masked(0x89, "ping"))
	f.Add(masked(0x88, "\x03\xe8"))
	f.Add(masked(0xc1, "compressed"))
	f.Add([]byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x81, 0x05, 'p', 'l', 'a', 'i', 'n'})
	r := newRig(f, func(c *Config) { c.Drain, c.Linger = 50*time.Millisecond, 10*time.Millisecond })
	r.dialWeb(f, native()) // starts the HTTP server
	f.Fuzz(func(t *testing.T, frames []byte) {
		p := r.dialWeb(t, native())
		raw := p.ws.NetConn()
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = raw.Write(frames) // the server may be quicker to close
			_ = raw.(interface{ CloseWrite() error }).CloseWrite()
		}()
		for {
			kind, text, err := p.ws.ReadMessage()
			if err != nil {
				break
			}
			if kind != websocket.TextMessage || len(text) == 0 || text[0] != '{' {
				t.Errorf("a message of kind %d: %q", kind, text)
			}
		}
		_, _ = io.Copy(io.Discard, raw)
		_ = p.ws.Close()
		<-written
		if s := r.log.String(); strings.Contains(s, "panic") {
			t.Fatal(s)
		}
	})
}
