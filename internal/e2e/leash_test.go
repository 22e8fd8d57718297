package e2e

import (
	"errors"
	"net"
	"sync"
)

// transport is one of the ways to a daemon.
type transport string

const (
	overTCP transport = "TCP"
	overWeb transport = "WebSocket"
)

var transports = []transport{overTCP, overWeb}

// open connects to a daemon with its token. The socket is passed through wrap,
// unless that is nil.
func (t transport) open(at runtimeFile, wrap func(*net.TCPConn) net.Conn) (*conn, error) {
	dial := func(_, address string) (net.Conn, error) {
		nc, err := net.DialTimeout("tcp", address, patience)
		if err != nil || wrap == nil {
			return nc, err
		}
		return wrap(nc.(*net.TCPConn)), nil
	}
	if t == overWeb {
		return openWebOver(at.HTTPEndpoint, at.Token, dial)
	}
	nc, err := dial("tcp", at.Endpoint)
	if err != nil {
		return nil, err
	}
	c := newConn(nc)
	c.token = at.Token
	return c, nil
}

// errLeash is what a leash says at its end.
var errLeash = errors.New("the client reads no further")

// leash is a client's socket from which so many bytes are read and no more: it
// ends anywhere, mostly inside a line.
type leash struct {
	*net.TCPConn
	left   int
	abrupt bool // its end is a reset, not an orderly close
}

func (l *leash) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLeash
	}
	n, err := l.TCPConn.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

func (l *leash) Close() error {
	if l.abrupt {
		_ = l.SetLinger(0) // of a connection that is closed already, if it fails
	}
	return l.TCPConn.Close()
}

// gated is a client's socket of which a little is read, and the rest only when a
// channel is closed.
type gated struct {
	*net.TCPConn
	gate   <-chan struct{}
	free   int
	closed chan struct{}
	once   sync.Once
}

func newGated(nc *net.TCPConn, gate <-chan struct{}) *gated {
	return &gated{TCPConn: nc, gate: gate, free: 4096, closed: make(chan struct{})}
}

func (g *gated) Read(p []byte) (int, error) {
	if g.free <= 0 {
		select {
		case <-g.gate:
		case <-g.closed:
			return 0, net.ErrClosed
		}
	}
	n, err := g.TCPConn.Read(p[:min(len(p), 4096)])
	g.free -= n
	return n, err
}

func (g *gated) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.TCPConn.Close()
}

// sips is a client's socket that is read a byte at a time.
type sips struct{ *net.TCPConn }

func (s sips) Read(p []byte) (int, error) { return s.TCPConn.Read(p[:min(len(p), 1)]) }
