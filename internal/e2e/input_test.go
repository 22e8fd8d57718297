package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// maxIncomingLine is the longest line that the daemon takes, in bytes without its
// LF.
const maxIncomingLine = 1 << 20

// createLine is a request that makes a thread, if anybody carries it out.
const createLine = `{"requestId":"c","type":"create_thread","payload":{"provider":"opencode"}}` + "\n"

// attacked is a daemon with one quiet thread. After the attack it must have that
// one thread only, unchanged, and answer a ping.
type attacked struct {
	*daemon
	thread string
	before snapshot
}

func newAttacked(t *testing.T, env ...string) *attacked {
	t.Helper()
	a := &attacked{daemon: start(t, newHome(t), env...)}
	c := a.dial()
	defer c.Close()
	var created struct {
		ThreadID string `json:"threadId"`
	}
	if err := c.call("create_thread", object{"provider": "opencode"}, &created); err != nil {
		t.Fatal(err)
	}
	a.thread = created.ThreadID
	a.before = a.snapshot()
	t.Cleanup(a.check)
	return a
}

func (a *attacked) snapshot() snapshot {
	a.t.Helper()
	c := a.dial()
	defer c.Close()
	var s snapshot
	if err := c.call("thread_snapshot", object{"threadId": a.thread}, &s); err != nil {
		a.t.Fatal(err)
	}
	return s
}

func (a *attacked) check() {
	a.t.Helper()
	a.pong()
	if now := a.snapshot(); now.LatestSeq != a.before.LatestSeq || now.Status != a.before.Status {
		a.t.Errorf("the thread is %+v, was %+v", now, a.before)
	}
	a.onlyThread()
}

// onlyThread fails the test if there is any thread besides the first.
func (a *attacked) onlyThread() {
	a.t.Helper()
	c := a.operator()
	defer c.Close()
	var list struct {
		Threads []struct {
			ThreadID string `json:"threadId"`
		} `json:"threads"`
	}
	if err := c.call("list_threads", nil, &list); err != nil {
		a.t.Fatal(err)
	}
	if len(list.Threads) != 1 || list.Threads[0].ThreadID != a.thread {
		a.t.Errorf("threads: %+v, want only %s", list.Threads, a.thread)
	}
}

// answers reads lines until the daemon closes.
func answers(c *conn) ([]message, error) {
	var all []message
	for {
		m, err := c.next(patience)
		if errors.Is(err, errClosed) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
}

// padded returns a ping of exactly size bytes, LF not counted.
func padded(id string, size int) []byte {
	head := `{"requestId":"` + id + `","type":"ping","pad":"`
	return []byte(head + strings.Repeat("p", size-len(head)-2) + "\"}\n")
}

func TestLinesOverTheLimitAreRefusedReadably(t *testing.T) {
	d := newAttacked(t)
	tests := map[string]struct {
		line []byte
		id   string
	}{
		"one byte over":             {padded("one-over", maxIncomingLine+1), "one-over"},
		"3 MiB":                     {padded("three", 3<<20), "three"},
		"3 MiB without a line feed": {padded("endless", 3<<20)[:3<<20-1], "endless"},
		"3 MiB, id too far behind":  {append([]byte(`{"pad":"`+strings.Repeat("p", 3<<20)+`","requestId":"x","type":"ping"}`), '\n'), ""},
		"3 MiB of nothing":          {bytes.Repeat([]byte("x"), 3<<20), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := d.dial()
			defer c.Close()
			if err := c.send(tt.line); err != nil {
				t.Fatalf("write: %v", err)
			}
			if err := c.nc.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatalf("close the sending half: %v", err)
			}
			got, err := answers(c)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || got[0].OK || got[0].Err == nil || got[0].Err.Code != "MESSAGE_TOO_LARGE" || got[0].RequestID != tt.id {
				t.Errorf("answers %+v, want one MESSAGE_TOO_LARGE for %q and the close", got, tt.id)
			}
		})
	}
	t.Run("exactly the limit is fine", func(t *testing.T) {
		c := d.dial()
		defer c.Close()
		if err := c.send(padded("full", maxIncomingLine)); err != nil {
			t.Fatal(err)
		}
		if m, err := c.next(patience); err != nil || !m.OK || m.RequestID != "full" {
			t.Errorf("answer %+v: %v", m, err)
		}
	})
}

func TestMalformedLinesGetAnErrorAndTheConnectionGoesOn(t *testing.T) {
	d := newAttacked(t)
	nest := func(levels int) string {
		return `{"requestId":"n","type":"thread_snapshot","payload":` + strings.Repeat(`{"a":`, levels) + `1` + strings.Repeat(`}`, levels) + `}`
	}
	tests := map[string]struct {
		line string
		code string
		id   string
	}{
		"200 levels of objects":         {nest(200), "IPC_UNAVAILABLE", ""},
		"200 levels of arrays":          {`{"requestId":"n","type":"ping","payload":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "IPC_UNAVAILABLE", ""},
		"100,000 levels, never closed":  {strings.Repeat("[", 100_000), "IPC_UNAVAILABLE", ""},
		"invalid UTF-8":                 {"{\"requestId\":\"u\",\"type\":\"create_thread\",\"payload\":{\"provider\":\"opencode\",\"x\":\"\xff\xfe\"}}", "IPC_UNAVAILABLE", ""},
		"an overlong encoding":          {"{\"requestId\":\"\xc0\xaf\",\"type\":\"ping\"}", "IPC_UNAVAILABLE", ""},
		"an encoded surrogate":          {"{\"requestId\":\"\xed\xa0\x80\",\"type\":\"ping\"}", "IPC_UNAVAILABLE", ""},
		"a byte order mark":             {"\xef\xbb\xbf{\"requestId\":\"b\",\"type\":\"ping\"}", "IPC_UNAVAILABLE", ""},
		"duplicate keys":                {`{"requestId":"d","type":"ping","type":"create_thread","payload":{"provider":"opencode"}}`, "IPC_UNAVAILABLE", ""},
		"duplicate keys in the payload": {`{"requestId":"d","type":"create_thread","payload":{"provider":"opencode","provider":"opencode"}}`, "IPC_UNAVAILABLE", ""},
		"duplicate keys, one escaped":   {`{"requestId":"d","type":"create_thread","payload":{"provider":"opencode","\u0070rovider":"opencode"}}`, "IPC_UNAVAILABLE", ""},
		"a lone surrogate":              {`{"requestId":"s","type":"create_thread","payload":{"provider":"opencode","x":"\udc00"}}`, "IPC_UNAVAILABLE", ""},
		"NUL inside":                    {"{\"requestId\":\"z\",\x00\"type\":\"ping\"}", "IPC_UNAVAILABLE", ""},
		"two values on a line":          {`{"requestId":"1","type":"ping"}{"requestId":"2","type":"ping"}`, "IPC_UNAVAILABLE", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := d.dial()
			defer c.Close()
			if err := c.send([]byte(tt.line + "\n")); err != nil {
				t.Fatal(err)
			}
			m, err := c.next(patience)
			if err != nil {
				t.Fatal(err)
			}
			if m.OK || m.Err == nil || m.Err.Code != tt.code || m.Err.Message == "" {
				t.Errorf("answer %+v, want %s", m, tt.code)
			}
			if err := c.call("ping", nil, nil); err != nil {
				t.Errorf("the connection does not go on: %v", err)
			}
		})
	}
}

func TestLongOperationIDIsInvalidInput(t *testing.T) {
	d := newAttacked(t)
	c := d.dial()
	for _, kind := range []string{"send_text", "prepare_thread"} {
		payload := object{"threadId": d.thread, "operationId": strings.Repeat("o", 40_000), "message": "echo no"}
		if got := codeOf(c.call(kind, payload, nil)); got != "INVALID_INPUT" {
			t.Errorf("%s with an id of 40 kB: %s", kind, got)
		}
	}
}

func TestOtherProtocolsAreClosedUnparsed(t *testing.T) {
	d := newAttacked(t)
	body := strings.Repeat(createLine, 3)
	tests := map[string]string{
		"HTTP POST with requests in its body": "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: " +
			fmt.Sprint(len(body)) + "\r\n\r\n" + body,
		"HTTP POST, bare line feeds": "POST / HTTP/1.1\nContent-Length: 1000\n\n" + body,
		"HTTP GET":                   "GET /?" + createLine,
		"HTTP OPTIONS":               "OPTIONS / HTTP/1.1\r\n\r\n" + body,
		"HTTP PROPFIND":              "PROPFIND / HTTP/1.1\r\n\r\n" + body,
		"HTTP/2 preface":             "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + body,
		"TLS hello":                  "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\n" + body,
		"NUL first":                  "\x00" + body,
		"control byte first":         "\x05\x01\x00\n" + body,
	}
	for name, opening := range tests {
		t.Run(name, func(t *testing.T) {
			c := d.dial()
			defer c.Close()
			if err := c.send([]byte(opening)); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Logf("write: %v", err) // the daemon may have closed already
			}
			if got, err := answers(c); err != nil || len(got) > 0 {
				t.Errorf("answers %+v: %v; want a silent close", got, err)
			}
		})
	}
	d.onlyThread()
}

func TestOpeningsByteByByteAreClosedToo(t *testing.T) {
	d := newAttacked(t)
	c := d.dial()
	defer c.Close()
	for _, b := range []byte("POST / HTTP/1.1\r\n\r\n" + createLine) {
		if err := c.send([]byte{b}); err != nil {
			break // closed already, as it should be
		}
	}
	if got, err := answers(c); err != nil || len(got) > 0 {
		t.Errorf("answers %+v: %v; want a silent close", got, err)
	}
}

func TestEightForeignLinesCloseTheConnection(t *testing.T) {
	d := newAttacked(t)
	c := d.dial()
	defer c.Close()
	if err := c.send([]byte(strings.Repeat("{}\n", 8) + createLine)); err != nil {
		t.Fatal(err)
	}
	got, err := answers(c)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 8 {
		t.Errorf("%d answers, want 8 and the close", len(got))
	}
	for _, m := range got {
		if m.OK || m.Err == nil || m.Err.Code != "IPC_UNAVAILABLE" {
			t.Errorf("answer %+v", m)
		}
	}
}

func TestConnectionsOverTheLimitAreClosed(t *testing.T) {
	const wanted, limit = 1100, 1024
	d := newAttacked(t)
	first := d.dial()
	if err := first.call("ping", nil, nil); err != nil {
		t.Fatal(err)
	}
	var all []net.Conn
	closeAll := func() {
		for _, c := range all {
			c.Close()
		}
		all = nil
	}
	defer closeAll()
	for range wanted {
		c, err := net.DialTimeout("tcp", d.info.Endpoint, patience)
		if err != nil {
			t.Fatalf("connection %d: %v", len(all), err)
		}
		all = append(all, c)
	}
	line := []byte(`{"requestId":"p","type":"ping"}` + "\n")
	served, refused := 0, 0
	for i, c := range all {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		_, writeErr := c.Write(line)
		var m message
		buf := make([]byte, 4096)
		n, readErr := c.Read(buf)
		switch {
		case n > 0 && json.Unmarshal(bytes.TrimSpace(buf[:n]), &m) == nil && m.OK:
			served++
		case errors.Is(readErr, io.EOF) || writeErr != nil || (readErr != nil && !isTimeout(readErr)):
			refused++
		default:
			t.Fatalf("connection %d is neither served nor closed: %q %v", i, buf[:n], readErr)
		}
	}
	if served > limit || served < limit-10 || served+refused != wanted {
		t.Errorf("%d served and %d closed of %d; the limit is %d", served, refused, wanted, limit)
	}
	if err := first.call("ping", nil, nil); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	first.Close()
	closeAll()
	if err := waitFor(patience, "a new connection to be served", func() (bool, error) {
		c, err := open(d.info.Endpoint)
		if err != nil {
			return false, err
		}
		defer c.Close()
		return c.call("ping", nil, nil) == nil, nil
	}); err != nil {
		t.Error(err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestDisconnectInsideALineRunsNothing(t *testing.T) {
	d := newAttacked(t)
	for cut := 1; cut < len(createLine)-1; cut += 7 {
		c, err := net.Dial("tcp", d.info.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, createLine[:cut]); err != nil {
			t.Fatal(err)
		}
		if cut%2 == 0 {
			// A reset instead of an orderly close.
			if err := c.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
	}
	// After a reset not even a whole line is run, once the daemon has seen it; an
	// unterminated rest is none.
	c, err := net.Dial("tcp", d.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, strings.TrimSuffix(createLine, "\n")); err != nil {
		t.Fatal(err)
	}
	c.Close()
	d.pong()
	d.onlyThread()
}

func TestSilentConnectionsAreClosedAndQuietOnesAreNot(t *testing.T) {
	d := newAttacked(t, "PEDELEC_DURATIONS=first-request=300ms")
	silent, slow, quiet := d.dial(), d.dial(), d.dial()
	if err := quiet.call("ping", nil, nil); err != nil {
		t.Fatal(err)
	}
	// Bytes, and even answered lines, are no valid request.
	if err := slow.send([]byte("{}\n{")); err != nil {
		t.Fatal(err)
	}
	if got, err := answers(silent); err != nil || len(got) != 0 {
		t.Errorf("a silent connection got %+v: %v", got, err)
	}
	if _, err := answers(slow); err != nil {
		t.Errorf("a connection that only said nonsense: %v", err)
	}
	if err := quiet.call("ping", nil, nil); err != nil {
		t.Errorf("a quiet connection with a request behind it: %v", err)
	}
}

func TestClientThatNeverReadsIsCutAndHurtsNobody(t *testing.T) {
	d := newAttacked(t, "PEDELEC_DURATIONS=write-timeout=500ms")
	c := d.dial()
	var created struct {
		ThreadID string `json:"threadId"`
	}
	if err := c.call("create_thread", object{"provider": "opencode"}, &created); err != nil {
		t.Fatal(err)
	}
	defer func() { // the check wants its one thread only
		if err := c.call("end_thread", object{"threadId": created.ThreadID}, nil); err != nil {
			t.Error(err)
		}
		if err := c.call("delete_thread", object{"threadId": created.ThreadID}, nil); err != nil {
			t.Error(err)
		}
	}()
	stalled, err := net.Dial("tcp", d.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	if err := stalled.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(stalled, `{"requestId":"s","type":"subscribe_thread","payload":{"threadId":%q}}`+"\n", created.ThreadID); err != nil {
		t.Fatal(err)
	}
	if err := c.call("subscribe_thread", object{"threadId": created.ThreadID}, nil); err != nil {
		t.Fatal(err)
	}
	// Events that it must get, more than any buffer on the way can hold.
	for i := range 60 {
		op := fmt.Sprint("big-", i)
		text := "echo " + strings.Repeat("x", 100_000)
		if err := c.call("send_text", object{"threadId": created.ThreadID, "operationId": op, "message": text}, nil); err != nil {
			t.Fatal(err)
		}
		events, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" && e.OperationID == op })
		if err != nil || !events[len(events)-1].Success {
			t.Fatalf("turn %s beside a stalled client: %v, %s", op, err, clip(events[len(events)-1].raw))
		}
		d.pong()
	}
	// The daemon cuts it: what was sent before can be read, then the end comes.
	if err := stalled.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, stalled)
	if isTimeout(err) {
		t.Errorf("a client that does not read is still connected after %d bytes", n)
	}
}
