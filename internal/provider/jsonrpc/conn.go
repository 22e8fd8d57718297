package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Defaults and limits of a connection.
const (
	DefaultSilence = 30 * time.Second // see Config.Silence
	maxMisses      = 3                // unanswered requests in a row that may break a silent connection
)

// ErrTimeout is the error of a request that was not answered in time.
var ErrTimeout = errors.New("jsonrpc: no answer in time")

// ErrClosed is the error of whatever meets a closed connection.
var ErrClosed = errors.New("jsonrpc: closed")

// Dialect is the form of the envelope.
type Dialect uint8

// The dialects.
const (
	V2   Dialect = iota // with "jsonrpc":"2.0"
	Bare                // without
)

// Handler takes what the peer says by itself. It is called on the reader's
// goroutine and must not block.
type Handler interface {
	Notification(method string, params jsontext.Value)
	// Request must lead to Reply or Refuse, at once or later.
	Request(id ID, method string, params jsontext.Value)
}

// ID is the peer's id of one of its requests.
type ID string

// Config is what a connection needs.
type Config struct {
	Dialect Dialect
	// Write sends one line, without its line feed, and returns when it is written.
	// It bounds itself.
	Write func(ctx context.Context, line []byte) error
	// Post queues one line and does not wait. Lines go out in the order of the
	// calls.
	Post    func(line []byte) error
	Handler Handler
	// Silence is how long the peer must have said nothing at all before three
	// unanswered requests in a row break the connection. 0 = DefaultSilence.
	Silence time.Duration
}

// Stats counts what made no sense.
type Stats struct {
	StrayLines   int    // lines that are no message
	LastStray    string // the beginning of the latest one
	LateAnswers  int    // answers to requests that nobody waits for
	SkippedLines int    // lines over the size limit
}

// strayBytes of a line that is no message are kept as a diagnostic.
const strayBytes = 200

type answer func(result jsontext.Value, err error)

// Conn is a connection to one peer.
type Conn struct {
	cfg  Config
	done chan struct{} // closed with err set

	mu        sync.Mutex
	err       error
	nextID    int64
	pending   map[int64]answer
	misses    int // requests in a row that were not answered
	lastFrame time.Time
	stats     Stats
}

// New returns a connection.
func New(cfg Config) *Conn {
	if cfg.Silence == 0 {
		cfg.Silence = DefaultSilence
	}
	return &Conn{cfg: cfg, done: make(chan struct{}), pending: map[int64]answer{}, lastFrame: time.Now()}
}

// Done is closed when the connection is broken or closed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err tells why Done is closed; nil before.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stats returns the counters.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Close breaks the connection with a cause (nil = ErrClosed). The first cause
// counts. Calls that wait return it; answers of Go are never told.
func (c *Conn) Close(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = cause
	clear(c.pending)
	close(c.done)
}

// Feed takes one line from the peer.
func (c *Conn) Feed(text []byte) {
	m, err := Decode(text)
	if err != nil {
		c.stray(text)
		return
	}
	c.Heard()
	switch m.Kind {
	case Notification:
		c.cfg.Handler.Notification(m.Method, m.Params)
	case Request:
		c.cfg.Handler.Request(ID(m.ID), m.Method, m.Params)
	case Response:
		c.answered(m)
	}
}

// Heard says that the peer lives, for one who has read a line of it without Feed.
func (c *Conn) Heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.misses, c.lastFrame = 0, time.Now()
}

// ErrTooLong is the error of a request whose answer was too long to be read.
var ErrTooLong = errors.New("jsonrpc: the answer is too long")

// Skipped takes the beginning and the end of a line that was too long to be read. If
// they show whose it is, an answer fails its request and a request is refused. It is
// called by the reader.
func (c *Conn) Skipped(head, tail []byte) {
	c.mu.Lock()
	c.stats.SkippedLines++
	c.mu.Unlock()
	c.Heard()
	m := peek(head, tail)
	switch {
	case m.ID == nil:
	case m.Kind == Request:
		if err := c.Refuse(ID(m.ID), CodeInvalidRequest, "The request is too long"); err != nil {
			return // the peer takes no input; its process says so elsewhere
		}
	case m.Kind == Response:
		if got := c.take(m.ID); got == nil {
			return
		} else if m.Error != nil {
			got(nil, m.Error)
		} else {
			got(nil, ErrTooLong)
		}
	}
}

func (c *Conn) stray(text []byte) {
	if len(text) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.StrayLines++
	c.stats.LastStray = string(text[:min(len(text), strayBytes)])
}

func (c *Conn) answered(m Message) {
	got := c.take(m.ID)
	switch {
	case got == nil:
	case m.Error != nil:
		got(nil, m.Error)
	default:
		got(m.Result, nil)
	}
}

// take returns who waits for an answer, if anybody, and lets nobody wait any more.
func (c *Conn) take(id jsontext.Value) answer {
	n, err := strconv.ParseInt(string(id), 10, 64)
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.pending[n]
	if err != nil || got == nil {
		c.stats.LateAnswers++
		return nil
	}
	delete(c.pending, n)
	return got
}

// Go sends a request. When it returns nil the request is written, and got will
// be called once, on the reader's goroutine, unless the connection breaks first;
// it may have been called already. When Go returns an error got is never called;
// [fault.ErrUnsent] is in its chain when nothing was written. An ended ctx is
// heeded only before the write begins: what may have been written is never
// called unwritten.
func (c *Conn) Go(ctx context.Context, method string, params any, got func(result jsontext.Value, err error)) error {
	_, err := c.send(ctx, method, params, got)
	return err
}

func (c *Conn) send(ctx context.Context, method string, params any, got answer) (id int64, err error) {
	c.mu.Lock()
	c.nextID++
	id = c.nextID
	c.mu.Unlock()
	text, err := encode(c.envelope(outgoing{ID: strconv.AppendInt(nil, id, 10), Method: method, Params: params}))
	if err != nil {
		return 0, errors.Join(fault.ErrUnsent, fmt.Errorf("jsonrpc: encode %s: %w", method, err))
	}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return 0, errors.Join(fault.ErrUnsent, c.err)
	}
	c.pending[id] = got
	c.mu.Unlock()
	if err := c.write(ctx, text); err != nil {
		c.forget(id)
		return 0, err
	}
	return id, nil
}

// Call sends a request and waits for its answer, which it reads into result
// unless that is nil or the answer is null. Errors: *Error as the peer answered,
// ErrTimeout, ctx's error, or why the connection broke.
func (c *Conn) Call(ctx context.Context, timeout time.Duration, method string, params, result any) error {
	return c.CallLate(ctx, timeout, method, params, result, nil)
}

type reply struct {
	result jsontext.Value
	err    error
}

// CallLate is Call for a request whose success must be undone when nobody waits
// for it any more: late is called with a result that comes after CallLate has
// returned an error. It may run on the reader's goroutine.
func (c *Conn) CallLate(ctx context.Context, timeout time.Duration, method string, params, result any, late func(result jsontext.Value)) error {
	w := &waiter{replies: make(chan reply, 1), late: late}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	id, err := c.send(ctx, method, params, w.answered)
	if err != nil {
		return err
	}
	select {
	case r := <-w.replies:
		return r.read(method, result)
	case <-timer.C:
		err = fmt.Errorf("%s: %w", method, ErrTimeout)
	case <-ctx.Done():
		err = ctx.Err()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%s: %w", method, ErrTimeout)
		}
	case <-c.done:
		return c.Err()
	}
	if late == nil {
		c.forget(id)
	}
	if w.leave() && errors.Is(err, ErrTimeout) {
		c.miss()
	}
	return err
}

// waiter is where an answer meets a caller who may leave.
type waiter struct {
	replies chan reply
	late    func(jsontext.Value)

	mu   sync.Mutex
	left bool
}

func (w *waiter) answered(result jsontext.Value, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.left {
		w.replies <- reply{result, err}
		return
	}
	if w.late != nil && err == nil {
		w.late(result)
	}
}

// leave sends what comes from now on to late, and what has just come. It reports
// whether nothing had come.
func (w *waiter) leave() (unanswered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	select {
	case r := <-w.replies:
		if w.late != nil && r.err == nil {
			w.late(r.result)
		}
		return false
	default:
		return true
	}
}

func (c *Conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

func (r reply) read(method string, result any) error {
	if r.err != nil || result == nil || r.result.Kind() == 'n' {
		return r.err
	}
	if err := Unmarshal(r.result, result); err != nil {
		return fmt.Errorf("jsonrpc: answer to %s: %w", method, err)
	}
	return nil
}

// miss counts a request without an answer. Three in a row, with the peer silent
// for as long as Silence says, mean that it will not speak again.
func (c *Conn) miss() {
	c.mu.Lock()
	c.misses++
	broken := c.misses >= maxMisses && time.Since(c.lastFrame) >= c.cfg.Silence
	c.mu.Unlock()
	if broken {
		c.Close(fmt.Errorf("jsonrpc: %d requests in a row without an answer: %w", maxMisses, ErrTimeout))
	}
}

// Reply answers a request of the peer. It only queues, so that a reader may call
// it. What cannot be queued is lost with the peer, which does not read.
func (c *Conn) Reply(id ID, result any) error {
	if result == nil {
		result = jsontext.Value("null") // a response without a result is none
	}
	return c.post(outgoing{ID: jsontext.Value(id), Result: result})
}

// Refuse answers a request of the peer with an error; it queues as Reply does.
func (c *Conn) Refuse(id ID, code int, message string) error {
	return c.post(outgoing{ID: jsontext.Value(id), Error: &outgoingError{code, message}})
}

// Tell queues a request whose answer nobody waits for.
func (c *Conn) Tell(method string, params any) error {
	c.mu.Lock()
	c.nextID++
	id := c.nextID
	c.mu.Unlock()
	return c.post(outgoing{ID: strconv.AppendInt(nil, id, 10), Method: method, Params: params})
}

// Notify queues a notification.
func (c *Conn) Notify(method string, params any) error {
	return c.post(outgoing{Method: method, Params: params})
}

func (c *Conn) post(m outgoing) error {
	text, err := encode(c.envelope(m))
	if err != nil {
		return fmt.Errorf("jsonrpc: encode: %w", err)
	}
	if err := c.cfg.Post(text); err != nil {
		return fmt.Errorf("jsonrpc: write: %w", err)
	}
	return nil
}

func (c *Conn) envelope(m outgoing) outgoing {
	if c.cfg.Dialect == V2 {
		m.Version = "2.0"
	}
	return m
}

func (c *Conn) write(ctx context.Context, text []byte) error {
	if err := ctx.Err(); err != nil {
		return errors.Join(fault.ErrUnsent, err)
	}
	if err := c.cfg.Write(context.WithoutCancel(ctx), text); err != nil {
		return fmt.Errorf("jsonrpc: write: %w", err)
	}
	return nil
}
