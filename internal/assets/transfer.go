package assets

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// errCutOff is the cause when a thread's end or a shutdown stopped a transfer.
var errCutOff = errors.New("the transfer was cut off")

// errTooSlow is the cause when a transfer has used up its whole time.
var errTooSlow = errors.New("the transfer took too long")

// longPast is a deadline that ends what is waiting now.
var longPast = time.Unix(1, 0)

// transfer is one upload or download that runs. Its goroutine is that of the
// HTTP request; stop may be called from any.
type transfer struct {
	*ticket
	m        *Manager
	desk     *desk
	ctx      context.Context // ends when the transfer is stopped
	cancel   context.CancelFunc
	deadline time.Time     // for the whole transfer
	released chan struct{} // closed when no file is open or about to appear
	once     sync.Once     // of release

	mu   sync.Mutex
	conn *http.ResponseController // nil before and after the time in which stop may touch it
	cut  bool
}

// begin enters a transfer on a desk. The lock of the Manager is held.
func (m *Manager) begin(d *desk, t *ticket) *transfer {
	ctx, cancel := context.WithCancel(context.Background())
	run := &transfer{
		ticket: t, m: m, desk: d, ctx: ctx, cancel: cancel,
		deadline: time.Now().Add(m.cfg.TransferTimeout),
		released: make(chan struct{}),
	}
	d.transfers[run] = struct{}{}
	m.running[t.direction]++
	if t.direction == upload {
		d.uploading = true
	}
	return run
}

// connect lets stop reach the connection.
func (t *transfer) connect(conn *http.ResponseController) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conn = conn
}

// stop makes the transfer fail at its next step, and at once if it waits for
// the other side.
func (t *transfer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut = true
	t.cancel()
	if t.conn != nil {
		_ = t.conn.SetReadDeadline(longPast)
		_ = t.conn.SetWriteDeadline(longPast)
	}
}

// awaitBody grants the next read of the body its time.
func (t *transfer) awaitBody() error { return t.extend((*http.ResponseController).SetReadDeadline) }

// awaitReader grants the next write its time.
func (t *transfer) awaitReader() error { return t.extend((*http.ResponseController).SetWriteDeadline) }

func (t *transfer) extend(set func(*http.ResponseController, time.Time) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cut {
		return errCutOff
	}
	now := time.Now()
	if !now.Before(t.deadline) {
		return errTooSlow
	}
	until := now.Add(t.m.cfg.IdleTimeout)
	if t.deadline.Before(until) {
		until = t.deadline
	}
	return set(t.conn, until)
}

// alive reports whether the transfer may take its next step.
func (t *transfer) alive() error {
	if t.ctx.Err() != nil {
		return errCutOff
	}
	return nil
}

// release lets those go on who wait for the transfer's files. The connection is
// its request's alone from here. Only the first call does anything.
func (t *transfer) release() { t.once.Do(t.letGo) }

func (t *transfer) letGo() {
	t.mu.Lock()
	t.conn = nil
	t.mu.Unlock()
	t.cancel()
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	delete(t.desk.transfers, t)
	close(t.released)
}

// finish makes room for another transfer.
func (t *transfer) finish() {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.m.running[t.direction]--
	if t.direction == upload {
		t.desk.uploading = false
	}
	t.m.tidy(t.threadID, t.desk)
}
