package ipc

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// link is what the connections of both transports have in common: the way out,
// the subscriptions, and how a request is run and answered.
type link struct {
	server *Server
	nc     net.Conn
	out    *outbox
	subs   *subscriptions
	side   side
	ctx    context.Context // ends when nobody can read an answer any more
	cancel context.CancelFunc
	tasks  sync.WaitGroup // the goroutines of requests and of the pump
}

// side is a transport's part in a connection.
type side interface {
	recipient
	// stop makes the connection leave.
	stop(how ending)
}

// open sets a link up. What is written to goes to a sink of the transport.
func (l *link) open(s *Server, nc net.Conn, to sink, owner side) {
	l.server, l.nc, l.side = s, nc, owner
	l.ctx, l.cancel = context.WithCancel(s.base)
	l.out = newOutbox(to, l.writeFailed)
	l.subs = newSubscriptions(l.out)
	l.subs.run = l.runPump
	l.subs.told = s.metrics.told
	l.subs.open = s.metrics.subscribed
	l.subs.lost = l.feedLost
}

// perform runs one request and writes its answer, which it builds in buf. It
// returns a buffer for the next one and the code of the answer; turn is called
// just before the answer is written.
func (l *link) perform(ctx context.Context, req *request, buf []byte, turn func()) (next []byte, code fault.Code) {
	call := &call{server: l.server, caller: req.caller, subs: l.subs, to: l.side}
	line, code := l.server.answer(ctx, req, call, buf)
	call.receipt.begin()
	err := l.out.answer(line, turn)
	call.receipt.end(err)
	if call.answered != nil {
		call.answered(err == nil && code == "")
	}
	if cap(line) > keptBuffer {
		return nil, code
	}
	return line[:0], code
}

// writeFailed is called once, when the client cannot be written to.
func (l *link) writeFailed(err error) {
	if errors.Is(err, websocket.ErrCloseSent) {
		return // nothing has failed: the goodbye was said before
	}
	if isTimeout(err) {
		l.server.metrics.cut.Inc()
		l.server.log.Info().Dur("timeout", l.server.config.WriteTimeout).Msg("a client that did not read was cut")
		if tcp, ok := l.nc.(interface{ SetLinger(sec int) error }); ok {
			_ = tcp.SetLinger(0) // what it did not read shall not stay in the kernel
		}
	}
	l.side.stop(closeNow)
}

// feedLost closes the connection, so that the client subscribes anew and gets a
// snapshot that holds what it missed.
func (l *link) feedLost(threadID string, err error) {
	l.server.log.Info().Err(err).Str(keyThread, threadID).Msg("a subscription cannot go on; its connection closes")
	l.side.stop(finishInHand)
}

func (l *link) runPump(pump func()) {
	l.tasks.Go(func() {
		defer l.recover()
		pump()
	})
}

// recover ends the connection of a goroutine that panicked; it is deferred.
func (l *link) recover() {
	if p := recover(); p != nil {
		l.server.panicked(p)
		l.side.stop(closeNow)
	}
}

// isTimeout reports whether a deadline passed.
func isTimeout(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}
