package ipc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// dialTimeout bounds a connect on loopback, where it either works at once or
// not at all.
const dialTimeout = 5 * time.Second

// pingTimeout bounds the first answer of a daemon: no request but a few that say so
// takes longer. One that is stopped or hangs would be waited for without end.
const pingTimeout = 10 * time.Second

// Client talks to a running daemon as the user's own tool: it sends the token
// from the runtime file with every request. Its methods are safe for concurrent
// use; each call has a connection of its own, so a slow one delays no other.
type Client struct {
	// Origin makes the client speak for a web page; "" = for the operator. It
	// and SDKVersion are set before the first call.
	Origin     string
	SDKVersion string

	file    RuntimeFile
	leaving bool
	ids     atomic.Uint64
}

// Dial finds the daemon of a home folder and checks with a ping that it is the
// one which wrote the runtime file. Errors: CORE_RUNTIME_UNAVAILABLE, also of one that
// does not answer within ten seconds; that of ctx.
func Dial(ctx context.Context, home string) (*Client, error) {
	return dial(ctx, home, pingTimeout)
}

func dial(ctx context.Context, home string, patience time.Duration) (*Client, error) {
	file, err := ReadRuntimeFile(home)
	if err != nil {
		return nil, err
	}
	c := &Client{file: file}
	var pong PingResult
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = c.Call(limited, "ping", nil, &pong)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fault.Wrap(fault.CoreRuntimeUnavailable, "ipc.dial", err,
			fmt.Sprintf("The daemon (pid %d) does not answer. It hangs or was halted: let it go on, or end it and start it again with: pedelec-core serve", file.PID))
	}
	if err != nil {
		return nil, err
	}
	if pong.InstanceID != file.InstanceID {
		return nil, fault.New(fault.CoreRuntimeUnavailable, "Another program answers where the daemon should be. Start it with: pedelec-core serve")
	}
	c.leaving = pong.Leaving
	return c, nil
}

// NewClient returns a client for the daemon that a runtime file tells of. Nothing
// is asked of it first, and the file of agents, which names no instance, will do.
func NewClient(file RuntimeFile) *Client { return &Client{file: file} }

// Runtime returns what the daemon wrote about itself.
func (c *Client) Runtime() RuntimeFile { return c.file }

// Leaving reports whether the daemon was on its way out when it was found.
func (c *Client) Leaving() bool { return c.leaving }

// Call sends one request and decodes its result into result, unless that is
// nil. Errors are *[fault.Error] with the code of the answer, or with
// CORE_RUNTIME_UNAVAILABLE when the daemon cannot be reached or went away
// before it answered; a context that ended is returned as its own error.
func (c *Client) Call(ctx context.Context, typ string, payload, result any) error {
	w, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	return w.roundTrip(ctx, c, typ, payload, result)
}

// Subscribe opens a subscription on a connection of its own. afterSeq is the
// last event that the caller has seen; nil = only what happens from now on.
func (c *Client) Subscribe(ctx context.Context, threadID string, afterSeq *uint64) (*Stream, error) {
	w, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	var answer Subscribed
	payload := subscribePayload{threadPayload{&threadID}, afterSeq}
	if err := w.roundTrip(ctx, c, "subscribe_thread", payload, &answer); err != nil {
		w.close()
		return nil, err
	}
	return &Stream{Snapshot: answer.Snapshot, Replay: answer.Replay, wire: w}, nil
}

// Stream is a subscription. Next is called by one goroutine; Close by any.
type Stream struct {
	Snapshot Snapshot
	Replay   *Replay // nil when no afterSeq was given

	wire *clientWire
}

// Next waits for the next event. It returns ctx's error when that ends first,
// after which it may be called again, and CORE_RUNTIME_UNAVAILABLE when the
// daemon closed the connection: subscribe again, from the last event seen.
func (s *Stream) Next(ctx context.Context) (Event, error) {
	for {
		line, err := s.wire.readLine(ctx)
		if err != nil {
			return Event{}, err
		}
		var told struct {
			Type  string `json:"type"`
			Event Event  `json:"event"`
		}
		if err := json.Unmarshal(line, &told); err != nil {
			return Event{}, fault.Wrap(fault.IPCUnavailable, "ipc.stream", err, "The daemon sent a line that cannot be read.")
		}
		if told.Type == "thread_event" {
			return told.Event, nil
		}
	}
}

// Close ends the subscription.
func (s *Stream) Close() { s.wire.close() }

// outgoing is a request as our client writes it: the requestId comes first, so
// that the daemon finds it in a line that is too long.
type outgoing struct {
	RequestID        string `json:"requestId"`
	Type             string `json:"type"`
	CallerOrigin     string `json:"callerOrigin,omitzero"`
	CallerSDKVersion string `json:"callerSdkVersion,omitzero"`
	AuthToken        string `json:"authToken,omitzero"`
	Payload          any    `json:"payload,omitzero"`
}

// incoming is an answer.
type incoming struct {
	RequestID string         `json:"requestId"`
	OK        bool           `json:"ok"`
	Result    jsontext.Value `json:"result"`
	Error     *ErrorBody     `json:"error"`
}

// clientWire is one connection of a client.
type clientWire struct {
	conn  net.Conn
	lines lineScanner
}

func (c *Client) open(ctx context.Context) (*clientWire, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp4", c.file.Endpoint)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fault.Wrap(fault.CoreRuntimeUnavailable, "ipc.dial", err, notRunning)
	}
	return &clientWire{conn: conn}, nil
}

func (w *clientWire) close() { _ = w.conn.Close() } // nothing that was sent waits for it

func (w *clientWire) roundTrip(ctx context.Context, c *Client, typ string, payload, result any) error {
	id := "pedelec_" + strconv.FormatUint(c.ids.Add(1), 10)
	line, err := json.Marshal(outgoing{id, typ, c.Origin, c.SDKVersion, c.file.Token, payload})
	if err != nil {
		return fmt.Errorf("encode %s: %w", typ, err)
	}
	if len(line) > MaxLineBytes {
		return fault.Newf(fault.MessageTooLarge, "The request has %d bytes; %d are allowed.", len(line), MaxLineBytes)
	}
	if err := w.writeLine(ctx, append(line, '\n')); err != nil {
		return err
	}
	for {
		line, err := w.readLine(ctx)
		if err != nil {
			return err
		}
		var answer incoming
		if err := json.Unmarshal(line, &answer); err != nil {
			return fault.Wrap(fault.IPCUnavailable, "ipc.call", err, "The daemon sent an answer that cannot be read.")
		}
		if answer.RequestID != id && answer.Error == nil {
			continue // an event
		}
		return answer.decode(result)
	}
}

func (a *incoming) decode(result any) error {
	if !a.OK {
		if a.Error == nil {
			return fault.New(fault.IPCUnavailable, "The daemon sent an answer with neither result nor error.")
		}
		return a.Error.Err()
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fault.Wrap(fault.IPCUnavailable, "ipc.call", err, "The daemon sent a result of another shape.")
	}
	return nil
}

func (w *clientWire) writeLine(ctx context.Context, line []byte) error {
	defer w.bound(ctx)()
	_, err := w.conn.Write(line)
	return w.wireError(ctx, err)
}

// readLine returns the next line, valid until the next call.
func (w *clientWire) readLine(ctx context.Context) ([]byte, error) {
	defer w.bound(ctx)()
	for {
		if line, ok := w.lines.next(); ok {
			return line, nil
		}
		room := maxBuffered - len(w.lines.rest())
		if room <= 0 {
			return nil, fault.New(fault.MessageTooLarge, "The daemon sent a line that is longer than a message may be.")
		}
		if _, err := w.lines.fill(w.conn, room); err != nil {
			return nil, w.wireError(ctx, err)
		}
	}
}

// bound makes the connection's calls fail when ctx ends, until the returned
// function is called.
func (w *clientWire) bound(ctx context.Context) (release func()) {
	_ = w.conn.SetDeadline(time.Time{}) // fails on a closed connection, as the call behind it will
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = w.conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-fired // or it would spoil the next call
		}
	}
}

// wireError says what a failed read or write means to the caller.
func (w *clientWire) wireError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	return fault.Wrap(fault.CoreRuntimeUnavailable, "ipc.client", err, "The daemon closed the connection. See its log, and start it with: pedelec-core serve")
}
