package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// patience is how long a test waits for a line that must come. It is far above
// what the daemon may take, since the machine may be busy.
const patience = 20 * time.Second

// maxOutgoingLine is the longest line that the daemon may send, in bytes.
const maxOutgoingLine = 1_048_000

var (
	errClosed  = errors.New("the daemon closed the connection")
	errTimeout = errors.New("nothing came in time")
)

// wireError is the error member of a response or an event.
type wireError struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details jsontext.Value `json:"details"`
}

func (e *wireError) Error() string { return e.Code + ": " + e.Message }

// message is one line from the daemon: a response or an event.
type message struct {
	Type      string         `json:"type"`
	RequestID string         `json:"requestId"`
	OK        bool           `json:"ok"`
	Result    jsontext.Value `json:"result"`
	Err       *wireError     `json:"error"`
	Event     jsontext.Value `json:"event"`
}

func (m message) isEvent() bool { return m.Type == "thread_event" }

// event holds what tests look at; raw is the whole of it.
type event struct {
	Type        string     `json:"type"`
	Seq         uint64     `json:"seq"`
	ThreadID    string     `json:"threadId"`
	OperationID string     `json:"operationId"`
	Status      string     `json:"status"`
	Text        string     `json:"text"`
	Success     bool       `json:"success"`
	SessionID   string     `json:"providerSessionId"`
	Err         *wireError `json:"error"`

	raw jsontext.Value
}

// snapshot is what tests look at in a thread's snapshot.
type snapshot struct {
	ThreadID  string `json:"threadId"`
	Status    string `json:"status"`
	LatestSeq uint64 `json:"latestSeq"`
	Active    *struct {
		OperationID string `json:"operationId"`
	} `json:"activeOperation"`
	LastCompleted *struct {
		OperationID string     `json:"operationId"`
		Success     bool       `json:"success"`
		Err         *wireError `json:"error"`
	} `json:"lastCompletedOperation"`
	ActiveMessage *struct {
		Text string `json:"text"`
	} `json:"activeMessage"`
}

// envelope holds the members of a request besides its payload.
type envelope struct {
	RequestID     string         `json:"requestId"`
	Type          string         `json:"type"`
	CallerOrigin  *string        `json:"callerOrigin,omitzero"`
	CallerVersion *string        `json:"callerSdkVersion,omitzero"`
	AuthToken     *string        `json:"authToken,omitzero"`
	Payload       jsontext.Value `json:"payload,omitempty"`
}

// conn is a connection to the daemon, used by one goroutine.
type conn struct {
	nc      net.Conn
	lines   chan []byte // closed when the daemon closes
	stop    chan struct{}
	readErr error // why lines was closed; read it after that
	token   string
	version string // of the application's SDK; "" = it does not say
	nextID  int
	events  []event // arrived, not yet taken
}

// open connects to an endpoint. Close must be called.
func open(endpoint string) (*conn, error) {
	nc, err := net.DialTimeout("tcp", endpoint, patience)
	if err != nil {
		return nil, err
	}
	return newConn(nc), nil
}

func newConn(nc net.Conn) *conn {
	c := &conn{nc: nc, lines: make(chan []byte, 1024), stop: make(chan struct{})}
	go c.read()
	return c
}

func (c *conn) read() {
	defer close(c.lines)
	r := bufio.NewReaderSize(c.nc, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if len(line) > 0 {
				err = fmt.Errorf("the last line has no end: %q", clip(line))
			}
			c.readErr = err
			return
		}
		select {
		case c.lines <- line[:len(line)-1]:
		case <-c.stop:
			return
		}
	}
}

// Close closes the connection and waits for its reader.
func (c *conn) Close() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.nc.Close()
	for range c.lines {
	}
}

// send writes bytes as they are.
func (c *conn) send(b []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.nc.Write(b)
	return err
}

// line returns the next line, without its LF.
func (c *conn) line(d time.Duration) ([]byte, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case line, ok := <-c.lines:
		if !ok {
			if c.readErr != nil && !errors.Is(c.readErr, io.EOF) {
				return nil, fmt.Errorf("%w: %v", errClosed, c.readErr)
			}
			return nil, errClosed
		}
		return line, nil
	case <-timer.C:
		return nil, errTimeout
	}
}

// next returns the next message, a response or an event.
func (c *conn) next(d time.Duration) (message, error) {
	line, err := c.line(d)
	if err != nil {
		return message{}, err
	}
	return parseLine(line)
}

func parseLine(line []byte) (message, error) {
	var m message
	if len(line) > maxOutgoingLine {
		return m, fmt.Errorf("a line of %d bytes came, over the limit of %d", len(line), maxOutgoingLine)
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("a line that is no message came: %w: %q", err, clip(line))
	}
	return m, nil
}

func parseEvent(raw jsontext.Value) (event, error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("an event that cannot be read: %w: %q", err, clip(raw))
	}
	e.raw = bytes.Clone(raw)
	return e, nil
}

// request encodes a request as one line. An empty id takes the next of this
// connection.
func (c *conn) request(e envelope) (id string, line []byte, err error) {
	if e.RequestID == "" {
		c.nextID++
		e.RequestID = "r" + strconv.Itoa(c.nextID)
	}
	if e.AuthToken == nil && c.token != "" {
		e.AuthToken = &c.token
	}
	if e.CallerVersion == nil && c.version != "" {
		e.CallerVersion = &c.version
	}
	line, err = json.Marshal(e)
	return e.RequestID, append(line, '\n'), err
}

// do sends a request and waits for its response; events that come before it are
// kept. An error response is returned as *wireError. The result is decoded into
// out, unless that is nil.
func (c *conn) do(e envelope, out any) error {
	id, line, err := c.request(e)
	if err != nil {
		return err
	}
	if err := c.send(line); err != nil {
		return err
	}
	for {
		m, err := c.next(patience)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Type, err)
		}
		if m.isEvent() {
			ev, err := parseEvent(m.Event)
			if err != nil {
				return err
			}
			c.events = append(c.events, ev)
			continue
		}
		if m.RequestID != id {
			return fmt.Errorf("%s: the response names request %q, not %q", e.Type, m.RequestID, id)
		}
		if !m.OK {
			if m.Err == nil || m.Err.Code == "" || m.Err.Message == "" {
				return fmt.Errorf("%s: a response without ok, code or message", e.Type)
			}
			return m.Err
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(m.Result, out)
	}
}

// call is do with a payload of any shape.
func (c *conn) call(kind string, payload, out any) error {
	e := envelope{Type: kind}
	if payload != nil {
		b, err := json.Marshal(payload)
		if err != nil {
			return err
		}
		e.Payload = b
	}
	return c.do(e, out)
}

// takeEvent returns the next event, in order.
func (c *conn) takeEvent(d time.Duration) (event, error) {
	if len(c.events) > 0 {
		e := c.events[0]
		c.events = c.events[1:]
		return e, nil
	}
	m, err := c.next(d)
	if err != nil {
		return event{}, err
	}
	if !m.isEvent() {
		return event{}, fmt.Errorf("a response that nobody waits for: %+v", m)
	}
	return parseEvent(m.Event)
}

// until takes events up to the first that satisfies the condition.
func (c *conn) until(d time.Duration, done func(event) bool) ([]event, error) {
	deadline := time.Now().Add(d)
	var all []event
	for {
		e, err := c.takeEvent(time.Until(deadline))
		if err != nil {
			return all, err
		}
		all = append(all, e)
		if done(e) {
			return all, nil
		}
	}
}

// object is a JSON object written in a test.
type object = map[string]any

func clip(b []byte) []byte {
	const most = 300
	if len(b) > most {
		return append(bytes.Clone(b[:most]), "…"...)
	}
	return b
}

// codeOf returns the code of an error response, "" for nil and the text of any
// other error.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	var w *wireError
	if errors.As(err, &w) {
		return w.Code
	}
	return err.Error()
}
