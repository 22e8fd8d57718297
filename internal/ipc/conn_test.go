package ipc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func ping(id string) string { return fmt.Sprintf(`{"requestId":%q,"type":"ping"}`, id) }

func hasAll(t *testing.T, line string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(line, part) {
			t.Fatalf("line %s\nhas no %s", line, part)
		}
	}
}

func TestRequestsOnOneConnectionAreAnsweredInOrder(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	r.threads.hold["Snapshot"] = make(chan struct{})
	p := r.dial(t)
	p.send(
		fmt.Sprintf(`{"requestId":"slow","type":"thread_snapshot","payload":{"threadId":%q}}`, id),
		ping("a"), `{"requestId":"b","type":"nonsense"}`, ping("c"),
	)
	<-r.threads.entered
	close(r.threads.hold["Snapshot"])
	for _, want := range []string{"slow", "a", "b", "c"} {
		hasAll(t, p.line(), `{"requestId":"`+want+`"`)
	}
}

func TestHalfClosedConnectionGetsItsAnswers(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	r.threads.hold["Snapshot"] = make(chan struct{})
	p := r.dial(t)
	p.send(fmt.Sprintf(`{"requestId":"slow","type":"thread_snapshot","payload":{"threadId":%q}}`, id), ping("a"))
	p.write([]byte(ping("unterminated")))
	p.halfClose()
	<-r.threads.entered
	close(r.threads.hold["Snapshot"])
	for _, want := range []string{"slow", "a", "unterminated"} {
		hasAll(t, p.line(), `{"requestId":"`+want+`"`, `"ok":true`)
	}
	if _, err := p.read(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the last answer: %v, want EOF", err)
	}
}

func TestEOFEndsSubscriptionsAtOnceWhileARequestRuns(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	p := r.dial(t)
	p.send(fmt.Sprintf(`{"requestId":"s","type":"subscribe_thread","payload":{"threadId":%q}}`, id))
	p.line()
	r.threads.mu.Lock()
	hold := make(chan struct{})
	r.threads.hold["Snapshot"] = hold
	r.threads.mu.Unlock()
	p.send(fmt.Sprintf(`{"requestId":"slow","type":"thread_snapshot","payload":{"threadId":%q}}`, id))
	if m := <-r.threads.entered; m != "Snapshot" {
		t.Fatalf("entered %s first", m)
	}
	p.halfClose()
	if m := <-r.threads.entered; m != "Close" {
		t.Fatalf("%s, want the feed to be closed while the request is in hand", m)
	}
	close(hold)
	hasAll(t, p.line(), `"requestId":"slow"`, `"ok":true`)
}

func TestLinesAreNotRunAfterAReset(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	hold := make(chan struct{})
	defer close(hold)
	r.threads.hold["Snapshot"] = hold
	p := r.dial(t)
	p.send(
		fmt.Sprintf(`{"requestId":"slow","type":"thread_snapshot","payload":{"threadId":%q}}`, id),
		`{"requestId":"n","type":"create_thread","payload":{"provider":"opencode"}}`,
	)
	<-r.threads.entered
	before := len(r.ids())
	c := r.connOf(p)
	_ = p.conn.SetLinger(0)
	_ = p.conn.Close()
	<-c.ctx.Done() // the reset was seen; the request in hand is let go of with it
	c.tasks.Wait()
	if after := len(r.ids()); after != before {
		t.Fatalf("a request behind a reset made a thread")
	}
}

func TestLineOfExactlyTheLimitIsServedAndOneMoreByteIsRefused(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Drain = time.Second })
	pad := func(size int) string {
		head, tail := `{"requestId":"big","type":"ping","x":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	p := r.dial(t)
	p.send(pad(MaxLineBytes))
	hasAll(t, p.line(), `"requestId":"big"`, `"ok":true`)
	p.send(pad(MaxLineBytes + 1))
	hasAll(t, p.line(), `"requestId":"big"`, `"MESSAGE_TOO_LARGE"`)
	p.halfClose()
	p.ended()
}

func TestTooLongLineIsDrainedSoThatItsErrorIsReadable(t *testing.T) {
	r := newRig(t)
	for range 20 {
		p := r.dial(t)
		p.write([]byte(ping("first") + "\n" + `{"requestId":"huge","type":"send_text","payload":"`))
		for range 3 {
			p.write([]byte(strings.Repeat("x", 1<<20)))
		}
		p.write([]byte("\"}\n"))
		hasAll(t, p.line(), `"requestId":"first"`)
		hasAll(t, p.line(), `"requestId":"huge"`, `"MESSAGE_TOO_LARGE"`)
		p.halfClose()
		if _, err := p.read(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the error: %v, want EOF", err)
		}
	}
}

func TestTooLongLineWithoutAnIDEarlyIsAnsweredWithAnEmptyOne(t *testing.T) {
	r := newRig(t)
	p := r.dial(t)
	p.write([]byte(`{"payload":"` + strings.Repeat("x", MaxLineBytes+10)))
	p.halfClose()
	hasAll(t, p.line(), `{"requestId":""`, `"MESSAGE_TOO_LARGE"`)
	p.ended()
}

func TestEightForeignLinesInARowCloseTheConnection(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Drain = 50 * time.Millisecond })
	p := r.dial(t)
	for range maxForeignLines - 1 {
		p.send("nonsense")
	}
	p.send(ping("ok")) // breaks the row
	for range maxForeignLines + 3 {
		p.send("nonsense")
	}
	for range maxForeignLines - 1 {
		hasAll(t, p.line(), "IPC_UNAVAILABLE")
	}
	hasAll(t, p.line(), `"requestId":"ok"`)
	for range maxForeignLines {
		hasAll(t, p.line(), "IPC_UNAVAILABLE")
	}
	p.ended()
}

func TestConnectionWithoutAValidRequestIsClosedInTime(t *testing.T) {
	r := newRig(t, func(c *Config) { c.FirstRequest = 100 * time.Millisecond })
	silent, talking, valid := r.dial(t), r.dial(t), r.dial(t)
	valid.send(ping("v"))
	valid.line()
	talking.send("nonsense")
	talking.line()
	silent.ended()
	talking.ended()
	valid.send(ping("still here"))
	hasAll(t, valid.line(), "still here")
}

func TestConnectionsOverTheLimitAreClosed(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxConnections = 3 })
	var open []*peer
	for range 3 {
		p := r.dial(t)
		p.send(ping("x"))
		p.line()
		open = append(open, p)
	}
	r.dial(t).ended()
	open[0].send(ping("y"))
	hasAll(t, open[0].line(), `"requestId":"y"`)
}

func TestElevenHundredConnectionsLeaveTheDaemonAnswering(t *testing.T) {
	metrics := prometheus.NewRegistry()
	r := newRig(t, func(c *Config) { c.Registerer = metrics })
	first := r.dial(t)
	first.send(ping("before"))
	first.line()
	refused := 0
	for i := range 1100 {
		p := r.dial(t)
		if i >= MaxConnections-1 { // the first one counts
			p.ended()
			refused++
		}
	}
	first.send(ping("after"))
	hasAll(t, first.line(), `"requestId":"after"`)
	if refused != 1+1100-MaxConnections {
		t.Fatalf("%d connections were refused", refused)
	}
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families { // the listener must not have refused them before us
		if f.GetName() == "pedelec_ipc_connections_refused_total" && int(f.GetMetric()[0].GetCounter().GetValue()) != refused {
			t.Errorf("%v were counted, want %d", f.GetMetric()[0], refused)
		}
	}
}

func TestAClientThatNeverReadsIsCut(t *testing.T) {
	r := newRig(t, func(c *Config) { c.WriteTimeout = 100 * time.Millisecond })
	id := r.createThread(t)
	p := r.dial(t)
	_ = p.conn.SetReadBuffer(4 << 10)
	p.send(fmt.Sprintf(`{"requestId":"s","type":"subscribe_thread","payload":{"threadId":%q}}`, id))
	p.line()
	text := strings.Repeat("x", 60<<10)
	for range 400 { // more than the kernel buffers
		r.threads.tell(id, thread.Event{Kind: thread.EventAssistantDelta, Text: text, OperationID: "o"})
	}
	for {
		if m := <-r.threads.entered; m == "Close" {
			break
		}
	}
	hasAll(t, r.log.String(), "a client that did not read was cut")
}

func TestShutdownAnswersWhatWasReceived(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	hold := make(chan struct{})
	r.threads.hold["Snapshot"] = hold
	p := r.dial(t)
	p.send(fmt.Sprintf(`{"requestId":"slow","type":"thread_snapshot","payload":{"threadId":%q}}`, id), ping("behind"))
	<-r.threads.entered
	done := make(chan error, 1)
	go func() { done <- r.server.Shutdown(context.Background()) }()
	if _, err := r.server.acceptable(r.addr); err == nil {
		close(hold)
	}
	hasAll(t, p.line(), `"requestId":"slow"`, `"ok":true`)
	hasAll(t, p.line(), `"requestId":"behind"`, `"ok":true`)
	p.ended()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// acceptable waits until the listener of a server that leaves is closed.
func (s *Server) acceptable(addr string) (bool, error) {
	for {
		conn, err := net.Dial("tcp4", addr)
		if err != nil {
			return false, nil
		}
		_ = conn.Close()
	}
}

func TestForcedShutdownLetsGoOfRequests(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	r.threads.hold["Snapshot"] = make(chan struct{}) // for ever
	p := r.dial(t)
	p.send(fmt.Sprintf(`{"requestId":"slow","type":"thread_snapshot","payload":{"threadId":%q}}`, id))
	<-r.threads.entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Shutdown: %v", err)
	}
}

func TestAPanicIsAnsweredAndTheConnectionGoesOn(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	r.threads.panicIn = "Snapshot"
	p := r.dial(t)
	p.send(fmt.Sprintf(`{"requestId":"boom","type":"thread_snapshot","payload":{"threadId":%q}}`, id), ping("after"))
	hasAll(t, p.line(), `"requestId":"boom"`, `"INTERNAL"`)
	hasAll(t, p.line(), `"requestId":"after"`, `"ok":true`)
	hasAll(t, r.log.String(), "recovered from a panic", "told to")
}

func TestAClientThatDisconnectsInsideALineDoesNoHarm(t *testing.T) {
	r := newRig(t)
	before := len(r.ids())
	p := r.dial(t)
	p.write([]byte(`{"requestId":"x","type":"create_thread","payload":{"provider":"open`))
	_ = p.conn.Close()
	next := r.dial(t)
	next.send(ping("n"))
	hasAll(t, next.line(), `"ok":true`)
	if len(r.ids()) != before {
		t.Fatal("half a line made a thread")
	}
}

func TestOtherProtocolsAreClosedUnparsed(t *testing.T) {
	r := newRig(t)
	create := `{"requestId":"c","type":"create_thread","payload":{"provider":"opencode"}}`
	for name, opening := range map[string]string{
		"HTTP POST with requests in its body": "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 80\r\n\r\n" + create + "\n",
		"TLS hello":                           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"control byte":                        "\x00\x00\x00\x10" + create + "\n",
	} {
		p := r.dial(t)
		_, _ = p.conn.Write([]byte(opening)) // the server may be quicker
		if l, err := p.read(); err == nil {
			t.Errorf("%s: answered %s", name, l)
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: not closed", name)
		}
	}
	if n := len(r.ids()); n != 0 {
		t.Fatalf("%d threads were made", n)
	}
}

func TestPassingRefusalsOfOperationsReadAsBusy(t *testing.T) {
	for _, code := range []fault.Code{fault.StorageFull, fault.StorageFailed, fault.Overloaded, fault.CoreRuntimeUnavailable} {
		r := newRig(t)
		id := r.createThread(t)
		for _, m := range []string{"SendText", "Prepare", "Cancel"} {
			r.threads.fail[m] = fault.New(code, "")
		}
		p := r.dial(t)
		p.send(
			fmt.Sprintf(`{"requestId":"1","type":"send_text","payload":{"threadId":%q,"message":""}}`, id),
			fmt.Sprintf(`{"requestId":"2","type":"prepare_thread","payload":{"threadId":%q}}`, id),
			fmt.Sprintf(`{"requestId":"3","type":"cancel_operation","payload":{"threadId":%q}}`, id),
		)
		for range 2 {
			hasAll(t, p.line(), `"code":"THREAD_BUSY"`, fmt.Sprintf(`"details":{"reason":%q,"threadId":%q}`, code, id))
		}
		hasAll(t, p.line(), fmt.Sprintf(`"code":%q`, code))
	}
}

func TestASubscribeBehindWhichTheClientHalfClosesIsAnsweredButCarriesNothing(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	p := r.dial(t)
	p.send(subscribe("s", id))
	p.halfClose()
	hasAll(t, p.line(), `"requestId":"s"`, `"ok":true`)
	p.ended()
	if n := r.threads.feedCount(id); n != 0 {
		t.Fatalf("%d feeds are open", n)
	}
}

func TestAStalledClientHoldsLessThanOneMebibyte(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	p := r.dial(t)
	_ = p.conn.SetReadBuffer(4 << 10)
	p.send(subscribe("s", id))
	p.line()
	var feed *memoryFeed
	r.threads.mu.Lock()
	for feed = range r.threads.threads[id].feeds {
	}
	r.threads.mu.Unlock()
	text := strings.Repeat("x", 60<<10)
	for range 400 { // more than the kernel buffers
		r.threads.tell(id, delta(text))
		r.threads.mu.Lock()
		held := 0
		for _, line := range r.threads.threads[id].lines[max(feed.written, feed.snap.LatestSeq):feed.cursor] {
			held += len(line)
		}
		r.threads.mu.Unlock()
		if held > 1<<20 {
			t.Fatalf("%d bytes are held for a stalled client", held)
		}
	}
}

func TestAPanicOfAFeedEndsItsConnectionOnly(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	p, other := r.dial(t), r.dial(t)
	p.send(subscribe("s", id))
	p.line()
	r.threads.mu.Lock()
	r.threads.panicIn = "Take"
	r.threads.mu.Unlock()
	r.threads.tell(id, delta("x"))
	p.ended()
	other.send(ping("o"))
	hasAll(t, other.line(), `"ok":true`)
}

func TestAFloodOfEmptyLinesBehindASlowRequestIsBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Drain = 50 * time.Millisecond })
	id := r.createThread(t)
	hold := make(chan struct{})
	r.threads.hold["Snapshot"] = hold
	p := r.dial(t)
	p.send(fmt.Sprintf(`{"requestId":"slow","type":"thread_snapshot","payload":{"threadId":%q}}`, id))
	<-r.threads.entered
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		_, _ = p.conn.Write([]byte(strings.Repeat("\n", 8<<20))) // cut short when the server closes
	}()
	c := r.connOf(p)
	c.mu.Lock()
	for len(c.queue) < 1000 {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	if c.queued > maxBuffered || len(c.queue) > maxBuffered/lineOverhead {
		t.Errorf("%d lines and %d bytes are queued", len(c.queue), c.queued)
	}
	c.mu.Unlock()
	close(hold)
	hasAll(t, p.line(), `"requestId":"slow"`)
	for range maxForeignLines {
		hasAll(t, p.line(), "IPC_UNAVAILABLE")
	}
	p.ended()
	<-flooded
}

// connOf returns the server's end of a peer's connection.
func (r *rig) connOf(p *peer) *conn {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	for c := range r.server.conns {
		if c.nc.RemoteAddr().String() == p.conn.LocalAddr().String() {
			return c
		}
	}
	p.t.Fatal("the server has no such connection")
	return nil
}
