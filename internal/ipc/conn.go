package ipc

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// ending says how a connection leaves once it was told to.
type ending uint8

const (
	stayOpen     ending = iota
	finishLines         // answer what was received, then close
	finishInHand        // answer the request in hand, then close
	closeNow            // nothing more can be written
)

// conn is one TCP connection. Its reader runs serve; requests run in order on
// one goroutine that exists while there are any; events are written by the pump
// of its subscriptions.
type conn struct {
	link

	mu      sync.Mutex
	changed sync.Cond // queue, working or ending changed
	queue   [][]byte  // lines behind the request in hand
	queued  int       // what they take of the buffer
	working bool      // a goroutine runs requests
	ending  ending
	latest  time.Time // with finishLines: when no line is taken any more
	served  bool      // a valid request was accepted
	lines   int       // lines received so far
	hungUp  bool      // the client closed its side cleanly

	// foreign counts lines in a row that another protocol's speaker would send,
	// buf is where answers are built; both belong to whoever runs requests.
	foreign int
	buf     []byte
}

// At a shutdown, lines are still read as long as they come without a pause: the
// client sent them before it could know. One that never pauses is stopped after a
// while.
const (
	restPause = 50 * time.Millisecond
	restLimit = time.Second
)

// errStopped is why a reader returns that was told to stop.
var errStopped = errors.New("the connection was told to stop")

// errLineTooLong is why a reader returns that received too long a line.
var errLineTooLong = errors.New("a line is longer than allowed")

func (s *Server) newConn(nc net.Conn) *conn {
	c := &conn{}
	c.changed.L = &c.mu
	c.link.open(s, nc, &lineSink{conn: nc, timeout: s.config.WriteTimeout}, c)
	// Before anybody else knows the connection, so that no later stop is undone.
	_ = nc.SetReadDeadline(time.Now().Add(s.config.FirstRequest))
	return c
}

// serve reads until the connection ends and returns when all of its goroutines
// have returned.
func (c *conn) serve() {
	defer c.cancel()
	defer func() { _ = c.nc.Close() }() // whatever mattered was written before
	defer c.tasks.Wait()
	defer c.subs.close()
	defer c.recover()
	input, err := c.server.admit(c.nc)
	if err != nil {
		c.server.log.Debug().Err(err).Msg("a connection was closed before anything was parsed")
		return
	}
	var lines lineScanner
	why := c.read(input, &lines)
	c.finish(why, lines.rest())
}

// read takes lines until it cannot any more and says why.
func (c *conn) read(input io.Reader, lines *lineScanner) error {
	for {
		for line, ok := lines.next(); ok; line, ok = lines.next() {
			if err := c.submit(line); err != nil {
				return err
			}
		}
		room, err := c.room(len(lines.rest()))
		if err != nil {
			return err
		}
		c.boundRead()
		if _, err := lines.fill(input, room); err != nil {
			if err = c.readFailed(err, lines); err != nil {
				return err
			}
		}
	}
}

// boundRead makes the next read a short one when the connection is to leave.
func (c *conn) boundRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending == finishLines {
		_ = c.nc.SetReadDeadline(time.Now().Add(restPause)) // of a closed connection, if it fails
	}
}

// readFailed sorts out why nothing more can be read. An unterminated last line
// before EOF counts; one before a reset does not. It returns nil when reading
// shall go on.
func (c *conn) readFailed(err error, lines *lineScanner) error {
	if errors.Is(err, io.EOF) {
		c.noteHangUp()
		c.subs.close()
		if line, ok := lines.next(); ok { // arrived together with EOF
			_ = c.submit(line)
		}
		if rest := lines.rest(); len(rest) > 0 {
			if err := c.submit(rest); err != nil {
				return err
			}
		}
		return io.EOF
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && c.isQuiet() {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errStopped
	}
	return err
}

// isQuiet reports whether the connection may stay open without sending: the
// first valid request was accepted, at the last moment perhaps.
func (c *conn) isQuiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served && c.ending == stayOpen
}

// room returns how many bytes may be read now. It waits while the buffer is
// full of lines that wait for the request in hand.
func (c *conn) room(unparsed int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.ending > finishLines || c.ending == finishLines && time.Now().After(c.latest) {
			return 0, errStopped
		}
		if room := maxBuffered - c.queued - unparsed; room > 0 {
			return room, nil
		}
		if c.queued == 0 {
			return 0, errLineTooLong
		}
		c.changed.Wait()
	}
}

// submit runs a line if nothing is in hand, else queues it. The line may be
// overwritten afterwards.
func (c *conn) submit(line []byte) error {
	c.mu.Lock()
	for c.working && c.ending <= finishLines && c.queued > 0 && c.queued+cost(line) > maxBuffered {
		c.changed.Wait() // many short lines arrived at once
	}
	if c.ending > finishLines {
		c.mu.Unlock()
		return errStopped
	}
	c.lines++
	if c.working {
		c.queue = append(c.queue, append([]byte(nil), line...))
		c.queued += cost(line)
		c.mu.Unlock()
		return nil
	}
	c.working = true
	c.mu.Unlock()

	req := c.accept(line)
	if req.refusal != nil || req.route.inline {
		c.perform(req)
		c.mu.Lock()
		c.working = false
		c.mu.Unlock()
		return nil
	}
	c.tasks.Go(func() { c.work(req) })
	return nil
}

// work runs a request and those that were received behind it.
func (c *conn) work(req *request) {
	defer func() {
		if p := recover(); p != nil {
			c.server.panicked(p)
			c.stop(closeNow)
			c.mu.Lock()
			c.working = false
			c.changed.Broadcast()
			c.mu.Unlock()
		}
	}()
	for {
		c.perform(req)
		line, ok := c.take()
		if !ok {
			return
		}
		req = c.accept(line)
	}
}

// take returns the next received line, or says that there is nothing to run.
func (c *conn) take() (line []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	if c.ending > finishLines {
		c.queue, c.queued = nil, 0
	}
	if len(c.queue) == 0 {
		c.queue = nil
		c.working = false
		return nil, false
	}
	line = c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	c.queued -= cost(line)
	return line, true
}

// lineOverhead is about what an empty line takes while it waits.
const lineOverhead = 64

// cost is what a waiting line takes of the buffer.
func cost(line []byte) int { return len(line) + lineOverhead }

// accept decodes a line. The first valid request lifts the time limit that a
// new connection is under.
func (c *conn) accept(line []byte) *request {
	req := c.server.decodeRequest(line, proof{})
	if req.refusal != nil || c.served {
		return req
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served = true
	if c.ending == stayOpen {
		_ = c.nc.SetReadDeadline(time.Time{}) // a dead connection shows at the next read
	}
	return req
}

// perform runs one request and writes its answer.
func (c *conn) perform(req *request) {
	var code fault.Code
	c.buf, code = c.link.perform(c.ctx, req, c.buf, nil)
	if code == fault.MessageTooLarge {
		c.stop(finishInHand)
	}
	c.countForeign(req)
}

func (c *conn) countForeign(req *request) {
	if !req.foreign {
		c.foreign = 0
		return
	}
	if c.foreign++; c.foreign == maxForeignLines {
		c.stop(finishInHand)
	}
}

// stop makes the connection leave; the stronger of two reasons counts. The
// reader is woken by a deadline: in the past, unless what was sent is still read.
func (c *conn) stop(how ending) {
	c.mu.Lock()
	if how <= c.ending {
		c.mu.Unlock()
		return
	}
	c.ending = how
	deadline := time.Unix(1, 0)
	if how == finishLines {
		now := time.Now()
		deadline, c.latest = now.Add(restPause), now.Add(restLimit)
	} else {
		c.queue, c.queued = nil, 0
	}
	_ = c.nc.SetReadDeadline(deadline) // of a closed connection, if it fails
	c.changed.Broadcast()
	c.mu.Unlock()
	if how == closeNow {
		c.cancel()
		_ = c.nc.Close() // what could not be written is lost anyway
	}
}

// finish ends the connection in the way that fits why reading ended.
func (c *conn) finish(why error, received []byte) {
	switch {
	case errors.Is(why, io.EOF):
		c.waitIdle() // subscriptions have ended; the answers may still be read
	case errors.Is(why, errLineTooLong):
		c.waitIdle()
		c.refuseLongLine(received)
		c.closeAfterAnswer(c.server.config.Drain)
	case errors.Is(why, errStopped):
		switch c.waitIdle() {
		case finishLines:
			c.subs.flush()
			c.closeAfterAnswer(c.server.config.Linger)
		case finishInHand:
			c.closeAfterAnswer(c.server.config.Drain)
		}
	default:
		// A reset: the client is gone, and what it had sent is not run.
		c.subs.close()
		c.stop(closeNow)
		c.waitIdle()
	}
}

// waitIdle returns when no request is in hand and none waits.
func (c *conn) waitIdle() ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.working {
		c.changed.Wait()
	}
	return c.ending
}

// refuseLongLine answers a line of which only the start was received.
func (c *conn) refuseLongLine(start []byte) {
	id, _ := findRequestID(start[:min(len(start), requestIDWindow)])
	c.perform(&request{
		id:      id,
		refusal: fault.Newf(fault.MessageTooLarge, "A message may have %d bytes.", MaxLineBytes),
	})
}

// closeAfterAnswer says that nothing more will be written and reads on for a
// while, throwing away: closing with unread data would reset the connection,
// and the client could lose the answer.
func (c *conn) closeAfterAnswer(patience time.Duration) {
	c.subs.close()
	c.subs.wait()
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.nc.SetReadDeadline(time.Now().Add(patience)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.nc, maxDrainBytes) // however it ends, the connection closes now
}
