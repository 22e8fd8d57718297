package loopback

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// deadline is the time limit of one direction of a connection.
type deadline struct {
	mu     sync.Mutex
	at     time.Time
	length time.Duration // from when it was set; not positive if it was to end a wait at once
}

func (d *deadline) set(at time.Time, apply func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.length = at, time.Until(at)
	return apply(at)
}

// renew sets a limit anew, as long as it was, if whoever began to wait before it
// slept over it: the peer may have done its part in time. It reports whether to try
// again. Nothing but a standstill over the very end of a limit renews it, which no
// peer can bring about, so it is not counted how often that happens.
func (d *deadline) renew(began time.Time, apply func(time.Time) error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.length <= 0 || !began.Before(d.at) || !fault.Overslept(d.at) {
		return false
	}
	d.at = time.Now().Add(d.length)
	return apply(d.at) == nil
}

// SetDeadline sets both limits.
func (c *Conn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// SetReadDeadline limits reads. A limit that passes while the process stands still
// begins anew.
func (c *Conn) SetReadDeadline(at time.Time) error {
	return c.reading.set(at, c.TCPConn.SetReadDeadline)
}

// SetWriteDeadline limits writes, in the same way.
func (c *Conn) SetWriteDeadline(at time.Time) error {
	return c.writing.set(at, c.TCPConn.SetWriteDeadline)
}

// Read reads from the connection.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		began := time.Now()
		n, err := c.TCPConn.Read(p)
		// Also when something came: the next read, for the rest, begins behind the limit.
		renewed := c.reading.renew(began, c.TCPConn.SetReadDeadline)
		if n > 0 || !renewed || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

// Write writes to the connection.
func (c *Conn) Write(p []byte) (written int, err error) {
	for {
		began := time.Now()
		n, err := c.TCPConn.Write(p[written:])
		written += n
		if !errors.Is(err, os.ErrDeadlineExceeded) || !c.writing.renew(began, c.TCPConn.SetWriteDeadline) {
			return written, err
		}
	}
}

// ReadFrom writes what is read from r. A part of a file is copied by the system.
func (c *Conn) ReadFrom(r io.Reader) (written int64, err error) {
	part, ok := r.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	for {
		began, left := time.Now(), part.N
		n, err := c.TCPConn.ReadFrom(part)
		written += n
		lost := left-part.N != n // it was read by us, and could not be written
		if lost || !errors.Is(err, os.ErrDeadlineExceeded) || !c.writing.renew(began, c.TCPConn.SetWriteDeadline) {
			return written, err
		}
	}
}
