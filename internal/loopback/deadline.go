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
	told   bool          // it has ended a wait, and stays passed
}

func (d *deadline) set(at time.Time, apply func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.length, d.told = at, time.Until(at), false
	return apply(at)
}

// renew sets a limit that has ended a wait anew, as long as it was, if the process
// slept over it: the peer may have done its part in time. The wait may have begun
// behind the limit, since a process also stands still between two writes. It reports
// whether to try again. Nothing but a standstill over the very end of a limit renews
// it, which no peer can bring about, so it is not counted how often that happens.
func (d *deadline) renew(err error, apply func(time.Time) error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.length <= 0 || d.told || !fault.Overslept(d.at) {
		d.told = true
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
		n, err := c.TCPConn.Read(p)
		if n > 0 || !c.reading.renew(err, c.TCPConn.SetReadDeadline) {
			return n, err
		}
	}
}

// Write writes to the connection.
func (c *Conn) Write(p []byte) (written int, err error) {
	for {
		n, err := c.TCPConn.Write(p[written:])
		written += n
		if !c.writing.renew(err, c.TCPConn.SetWriteDeadline) {
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
		left := part.N
		n, err := c.TCPConn.ReadFrom(part)
		written += n
		if !c.writing.renew(err, c.TCPConn.SetWriteDeadline) || !putBack(part, left-part.N-n) {
			return written, err
		}
	}
}

// putBack makes what was read of a part, and could not be written, be read again. The
// system's copy loses nothing, but a limit that passed before it begins makes it a
// copy through memory.
func putBack(part *io.LimitedReader, unsent int64) bool {
	if unsent == 0 {
		return true
	}
	file, ok := part.R.(io.Seeker)
	if !ok {
		return false
	}
	if _, err := file.Seek(-unsent, io.SeekCurrent); err != nil {
		return false
	}
	part.N += unsent
	return true
}
