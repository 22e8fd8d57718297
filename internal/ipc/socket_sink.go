package ipc

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// messageSink writes each line as a text message, without its LF.
type messageSink struct {
	ws     *websocket.Conn
	gather *gatherer
}

// write sends several messages with as few system calls as fit. Only control
// frames can come between them; after a close frame no message can follow, and what
// was held back with it, itself included, still goes out.
func (s *messageSink) write(lines [][]byte) error {
	if len(lines) == 1 {
		return s.message(lines[0])
	}
	s.gather.begin()
	for _, line := range lines {
		if err := s.message(line); err != nil {
			return errors.Join(err, s.gather.end())
		}
	}
	return s.gather.end()
}

func (s *messageSink) message(line []byte) error {
	return s.ws.WriteMessage(websocket.TextMessage, line[:len(line)-1])
}

func (s *messageSink) rest() { s.gather.rest() }

// gatherer is a connection that can hold back what is written, so that frames of
// many small messages go out together. It limits each write that goes out.
type gatherer struct {
	net.Conn
	timeout time.Duration // of one write

	mu      sync.Mutex
	holding bool
	held    []byte
}

// SetWriteDeadline leaves the limit alone. The library sets one that began when a
// frame was made; what waited for its turn would have no time left.
func (g *gatherer) SetWriteDeadline(time.Time) error { return nil }

// Write writes, or holds back up to about [writeBatchBytes].
func (g *gatherer) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holding {
		return g.send(p)
	}
	g.held = append(g.held, p...)
	if len(g.held) < writeBatchBytes {
		return len(p), nil
	}
	return len(p), g.flush()
}

// begin holds back what is written from now on.
func (g *gatherer) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = true
}

// end writes what was held back.
func (g *gatherer) end() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = false
	return g.flush()
}

// flush writes what is held; g.mu is held.
func (g *gatherer) flush() error {
	_, err := g.send(g.held)
	g.held = g.held[:0]
	return err
}

// send writes at once; g.mu is held.
func (g *gatherer) send(p []byte) (int, error) {
	if err := g.Conn.SetWriteDeadline(time.Now().Add(g.timeout)); err != nil {
		return 0, err
	}
	return g.Conn.Write(p)
}

// rest gives a large buffer back.
func (g *gatherer) rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if cap(g.held) > keptBuffer && !g.holding {
		g.held = nil
	}
}
