package ipc

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// socket is one WebSocket. Its reader runs serve and never waits for a request,
// since pongs are only seen while reading; each request has a goroutine of its
// own. Control frames of ours are written by the keeper.
type socket struct {
	link
	ws    *websocket.Conn
	from  proof
	lanes lanes
	large chan struct{} // holds one while a large answer is made and written
	pongs chan string   // what the client's latest ping said, until it is answered
	left  chan struct{} // closed when the client is gone
	over  chan struct{} // closed when the keeper shall return
	buf   []byte        // the message that is read; the reader's

	requests sync.WaitGroup // those that were accepted

	mu       sync.Mutex
	ending   ending
	farewell farewell
	closing  bool // the close frame is on its way: the read deadline is set for good
	inFlight int  // requests whose answer is not being written yet
	bytes    int  // of their messages
	received int  // messages so far
	hungUp   bool // the client has said that it leaves
}

// farewell is why a connection is closed, as the client is told.
type farewell struct {
	code int // of RFC 6455
	why  string
}

// What clients are told.
var (
	farewellBinary   = farewell{websocket.CloseUnsupportedData, "Only text messages are understood."}
	farewellTooLarge = farewell{websocket.CloseMessageTooBig, "The message is larger than allowed."}
	farewellNotUTF8  = farewell{websocket.CloseInvalidFramePayloadData, "The message is not UTF-8."}
	farewellRevoked  = farewell{websocket.ClosePolicyViolation, "The origin is not approved any more."}
	farewellBehind   = farewell{websocket.CloseTryAgainLater, "A subscription fell behind; subscribe again."}
	farewellShutdown = farewell{websocket.CloseGoingAway, "The daemon is leaving."}
	farewellBroken   = farewell{websocket.CloseInternalServerErr, "Something went wrong in the daemon."}
)

// farewells are those that go with a kind of ending, unless there is a better
// reason.
var farewells = map[ending]farewell{
	finishLines: farewellShutdown, finishInHand: farewellBehind, closeNow: farewellBroken,
}

func (s *Server) newSocket(ws *websocket.Conn, nc net.Conn, gather *gatherer, from proof) *socket {
	c := &socket{
		ws: ws, from: from,
		large: make(chan struct{}, 1),
		pongs: make(chan string, 1),
		left:  make(chan struct{}),
		over:  make(chan struct{}),
	}
	c.link.open(s, nc, &messageSink{ws: ws, gather: gather}, c)
	ws.SetPongHandler(func(string) error { c.alive(); return nil })
	ws.SetPingHandler(func(text string) error { c.alive(); c.notePing(text); return nil })
	ws.SetCloseHandler(func(int, string) error { return nil }) // finish answers it
	c.alive()
	return c
}

// serve reads until the connection ends and returns when all of its goroutines
// have returned.
func (c *socket) serve() {
	defer c.cancel()
	defer func() { _ = c.nc.Close() }() // whatever mattered was written before
	defer c.tasks.Wait()
	defer c.subs.close()
	defer close(c.over)
	defer c.requests.Wait()
	defer c.recover()
	c.tasks.Go(c.keep)
	c.finish(c.read())
}

// read takes messages until nothing more can be read and says why. Once the
// connection is to leave, what comes is refused at a shutdown, else thrown away.
func (c *socket) read() error {
	for {
		kind, r, err := c.ws.NextReader()
		if err != nil {
			return err
		}
		c.alive()
		if c.leaving() {
			if err := c.refuse(r); err != nil {
				return err
			}
			continue
		}
		if kind != websocket.TextMessage {
			c.leave(finishInHand, farewellBinary)
			continue
		}
		message, err := c.message(r)
		switch {
		case err != nil:
			return err
		case len(message) > MaxLineBytes:
			c.leave(finishInHand, farewellTooLarge)
		case !utf8.Valid(message):
			c.leave(finishInHand, farewellNotUTF8)
		default:
			c.submit(message)
		}
	}
}

// refuse answers a request that came at a shutdown, before the goodbye: its sender
// could not know.
func (c *socket) refuse(r io.Reader) error {
	c.mu.Lock()
	answer := c.ending == finishLines && !c.closing
	c.mu.Unlock()
	if !answer {
		return nil
	}
	message, err := c.message(r)
	if err != nil || len(message) > MaxLineBytes {
		return err
	}
	req := c.server.decodeRequest(message, c.from)
	_, _ = c.perform(c.ctx, req.givenUp(), nil, nil)
	return nil
}

// message reads a message, or a byte more than one may have.
func (c *socket) message(r io.Reader) ([]byte, error) {
	if cap(c.buf) > keptBuffer {
		c.buf = nil
	}
	c.buf = c.buf[:0]
	for {
		if len(c.buf) == cap(c.buf) {
			grown := make([]byte, len(c.buf), min(max(2*cap(c.buf), smallBuffer), MaxLineBytes+1))
			copy(grown, c.buf)
			c.buf = grown
		}
		n, err := r.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if errors.Is(err, io.EOF) || len(c.buf) > MaxLineBytes {
			return c.buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// submit begins a request, or refuses it when too many are in flight. The
// message may be overwritten afterwards.
func (c *socket) submit(message []byte) {
	req := c.server.decodeRequest(message, c.from)
	size := len(message)
	switch c.accept(size) {
	case tooBusy:
		// Written here, since nothing would bound the goroutines that did it. A
		// client that does not read is cut long before a pong of its is missed.
		_, _ = c.perform(c.ctx, &request{id: req.id, refusal: busy()}, nil, nil)
		return
	case tooLate:
		return
	}
	if req.refusal != nil || req.route.inline {
		c.run(req, size, nil)
		return
	}
	var where *place
	if id := req.threadID(); id != "" {
		where = c.lanes.enter(id)
	}
	c.tasks.Go(func() { c.run(req, size, where) })
}

func busy() *fault.Error {
	return fault.Newf(fault.Overloaded, "A connection may have %d requests in flight, of %d bytes together.", MaxInFlight, maxBytesInFlight)
}

// acceptance says whether a request is begun.
type acceptance uint8

const (
	accepted acceptance = iota
	tooBusy
	tooLate
)

func (c *socket) accept(size int) acceptance {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending != stayOpen {
		return tooLate
	}
	c.received++
	if c.inFlight >= MaxInFlight || c.inFlight > 0 && c.bytes+size > maxBytesInFlight {
		return tooBusy
	}
	c.inFlight++
	c.bytes += size
	c.requests.Add(1)
	return accepted
}

// run carries a request out when it is its turn in its thread's lane, and writes
// its answer. What has not begun when the client is gone is not run, nor what has
// not when a shutdown is forced; that is answered.
func (c *socket) run(req *request, size int, where *place) {
	defer c.requests.Done()
	defer c.recover()
	ctx := c.ctx
	if where != nil {
		defer where.leave()
		if where.wait(ctx) != nil {
			req = req.givenUp()
		}
		ctx = thread.WithPlace(ctx, where.begin)
	}
	if req.route != nil && req.route.large {
		select {
		case c.large <- struct{}{}:
			defer func() { <-c.large }()
		case <-ctx.Done():
			req = req.givenUp()
		}
	}
	// A client that has read the answer may send the next request at once, so
	// that this one must not count any more.
	_, _ = c.perform(ctx, req, nil, func() { c.answering(size) })
}

// givenUp is the request as it is answered when it was not run.
func (r *request) givenUp() *request {
	return &request{id: r.id, refusal: fault.New(fault.CoreRuntimeUnavailable, "")}
}

func (c *socket) answering(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
	c.bytes -= size
}

// keep writes control frames: pings of ours and pongs.
func (c *socket) keep() {
	defer c.recover()
	tick := time.NewTicker(c.server.config.Ping)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-c.over:
			return
		case text := <-c.pongs:
			err = c.control(websocket.PongMessage, text)
		case <-tick.C:
			err = c.control(websocket.PingMessage, "")
			c.checkApproval()
		}
		if err != nil && !errors.Is(err, websocket.ErrCloseSent) {
			c.stop(closeNow)
		}
	}
}

// control writes a control frame. That it did not get its turn while the process
// stood still says nothing about the client.
func (c *socket) control(kind int, text string) error {
	until := time.Now().Add(c.server.config.WriteTimeout)
	err := c.ws.WriteControl(kind, []byte(text), until)
	if isTimeout(err) && fault.Overslept(until) {
		return nil
	}
	return err
}

// notePing remembers the latest ping, the only one that has to be answered.
func (c *socket) notePing(text string) {
	for {
		select {
		case c.pongs <- text:
			return
		default:
		}
		select {
		case <-c.pongs:
		default:
		}
	}
}

// alive is called when something came.
func (c *socket) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		_ = c.nc.SetReadDeadline(time.Now().Add(c.server.config.Pong)) // a dead connection shows at the next read
	}
}

func (c *socket) leaving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending != stayOpen
}

// stop makes the connection leave.
func (c *socket) stop(how ending) { c.leave(how, farewells[how]) }

// leave makes the connection leave and tells the client why; the stronger of two
// reasons counts.
func (c *socket) leave(how ending, bye farewell) {
	c.mu.Lock()
	if how <= c.ending {
		c.mu.Unlock()
		return
	}
	first := c.ending == stayOpen
	c.ending, c.farewell = how, bye
	if first {
		c.tasks.Go(c.sayFarewell) // under the lock: serve waits for no more of them once it is over
	}
	c.mu.Unlock()
	if how < closeNow {
		return
	}
	c.cancel()
	c.subs.close()
	if !first { // whoever says farewell is cut short
		_ = c.nc.Close()
	}
}

// sayFarewell answers what was accepted, unless the connection closes at once,
// sends the close frame, and gives the client a moment for its own.
func (c *socket) sayFarewell() {
	defer c.recover()
	c.mu.Lock()
	how := c.ending
	c.mu.Unlock()
	patience := c.server.config.Drain
	switch how {
	case finishLines:
		patience = c.server.config.Linger
		c.requests.Wait()
		c.pause(restPause)
		c.subs.flush()
	case finishInHand:
		late := time.AfterFunc(patience, c.cancel)
		c.requests.Wait()
		late.Stop()
	}
	c.subs.close()
	c.mu.Lock()
	bye := c.farewell
	c.mu.Unlock()
	if how == closeNow {
		c.sayClose(bye.code, bye.why, c.server.config.Linger)
		_ = c.nc.Close()
		return
	}
	c.subs.wait()
	c.sayClose(bye.code, bye.why, c.server.config.WriteTimeout)
	c.mu.Lock()
	c.closing = true
	_ = c.nc.SetReadDeadline(time.Now().Add(patience))
	c.mu.Unlock()
}

// pause waits, but not for a client that is gone.
func (c *socket) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.left:
	case <-c.ctx.Done():
	}
}

// sayClose sends the close frame, if the client is still there to take it. A
// connection that it does not fit into in time is closed.
func (c *socket) sayClose(code int, why string, patience time.Duration) {
	late := time.AfterFunc(patience, func() { _ = c.nc.Close() })
	defer late.Stop()
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(patience))
}

// finish ends the connection when nothing more can be read. Requests that were
// begun before a clean close are carried out, although nobody reads their
// answers: the last thing that a page does may be to end its thread.
func (c *socket) finish(why error) {
	var bye *websocket.CloseError
	clean := errors.As(why, &bye)
	c.mu.Lock()
	c.hungUp = clean
	first := c.ending == stayOpen
	c.ending = max(c.ending, finishInHand)
	c.mu.Unlock()
	if isTimeout(why) && first {
		c.server.metrics.cut.Inc()
		c.server.log.Info().Msg("a client that did not answer pings was cut")
	}
	close(c.left)
	c.subs.close()
	if !clean {
		c.cancel()
	}
	c.out.shut(why)
	late := time.AfterFunc(c.server.config.Drain, c.cancel)
	c.requests.Wait()
	late.Stop()
	if clean && first {
		c.sayClose(bye.Code, "", c.server.config.Linger)
	}
}

// checkApproval ends the connection of an origin that the settings do not allow
// any more, although it sends nothing.
func (c *socket) checkApproval() {
	if c.from.origin != "" && c.subs.any() && !c.server.origins.approved(c.from.origin) {
		c.leave(closeNow, farewellRevoked)
	}
}

// receipt begins to watch the answer that is written next.
func (c *socket) receipt() *receipt { return &receipt{of: c} }

func (c *socket) gone() <-chan struct{} { return c.left }

func (c *socket) progress() (received int, hungUp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received, c.hungUp
}

// pending: what lies in the kernel may be the pong of a client that is stuck.
func (c *socket) pending() bool { return false }
