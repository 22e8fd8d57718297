package loopback

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Host is the one address that is listened on, literally: a name could be made
// to mean another one.
const Host = "127.0.0.1"

// DefaultKeepAlive is how long a peer may be silent before the system asks whether
// it is still there.
const DefaultKeepAlive = 30 * time.Second

// Options of a listener. The zero value is right where who serves the connections
// bounds them.
type Options struct {
	MaxConns int // at once; 0 = no bound
	// KeepAlive is [DefaultKeepAlive] if it is 0. A peer that is gone without a word
	// is found within twice that time, whether it was sent something or not. One
	// that answers is never closed for being silent, on Linux only for taking
	// nothing for as long.
	KeepAlive time.Duration
}

// probes is how often a silent peer is asked, within one more KeepAlive.
const probes = 3

// Listener accepts TCP connections, up to a limit if it has one. One over it is accepted and
// closed at once, so that its client learns of it and does not hang.
type Listener struct {
	inner   net.Listener
	max     int64
	open    atomic.Int64
	refused atomic.Uint64
}

// Listen binds an address host:port, port 0 for a free one. Error:
// INVALID_INPUT for an address that is not allowed, else the system's.
func Listen(ctx context.Context, addr string, o Options) (*Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fault.Newf(fault.InvalidInput, "The address %q is not host:port: %w", addr, err)
	}
	if host != Host {
		return nil, fault.Newf(fault.InvalidInput, "The daemon listens on %s only, not on %q.", Host, host)
	}
	idle := o.KeepAlive
	if idle == 0 {
		idle = DefaultKeepAlive
	}
	config := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: idle, Interval: idle / probes, Count: probes},
		Control: func(_, _ string, socket syscall.RawConn) error {
			return boundSilence(socket, 2*idle)
		},
	}
	inner, err := config.Listen(ctx, "tcp4", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	limit := int64(math.MaxInt64)
	if o.MaxConns > 0 {
		limit = int64(o.MaxConns)
	}
	return &Listener{inner: inner, max: limit}, nil
}

// Accept returns the next connection within the limit, a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.inner.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := accepted.(*net.TCPConn)
		if !ok {
			_ = accepted.Close()
			return nil, errors.New("loopback: accepted something that is not TCP")
		}
		if l.open.Add(1) > l.max {
			l.open.Add(-1)
			l.refused.Add(1)
			_ = tcp.Close()
			continue
		}
		return &Conn{TCPConn: tcp, listener: l}, nil
	}
}

// Close stops listening. Accepted connections stay.
func (l *Listener) Close() error { return l.inner.Close() }

// Addr returns the bound address.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Port returns the bound port.
func (l *Listener) Port() int {
	if addr, ok := l.inner.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// Open returns the number of connections that are open now.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Refused returns the number of connections that were over the limit.
func (l *Listener) Refused() uint64 { return l.refused.Load() }

// Conn is an accepted connection. Closing it makes room for another.
type Conn struct {
	*net.TCPConn
	listener *Listener
	once     sync.Once

	reading, writing deadline
}

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() { c.listener.open.Add(-1) })
	return err
}
