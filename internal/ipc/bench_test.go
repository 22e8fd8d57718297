package ipc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/thread"
)

const benchPing = `{"requestId":"bench_1","type":"ping","payload":{}}` + "\n"

// BenchmarkPingRoundTrip measures a request's way through the server; its
// baseline is BenchmarkEchoRoundTrip in the same run.
func BenchmarkPingRoundTrip(b *testing.B) {
	r := newRig(b)
	conn, err := net.Dial("tcp4", r.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	roundTrips(b, conn)
}

// BenchmarkEchoRoundTrip is a bare server that decodes the same request and
// encodes the same answer.
func BenchmarkEchoRoundTrip(b *testing.B) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	done := make(chan error, 1)
	go func() { done <- echo(l) }()
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	roundTrips(b, conn)
	_ = conn.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

func echo(l net.Listener) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	lines := bufio.NewReader(conn)
	type answer struct {
		RequestID string     `json:"requestId"`
		OK        bool       `json:"ok"`
		Result    PingResult `json:"result"`
	}
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var env envelope
		if err := json.Unmarshal(line, &env); err != nil {
			return err
		}
		out, err := json.Marshal(answer{*env.RequestID, true, PingResult{
			Connected: true, Version: "1.2.3", ProcessID: 1234, InstanceID: "instance", Protocol: Protocol, Capabilities: Capabilities,
		}})
		if err != nil {
			return err
		}
		if _, err := conn.Write(append(out, '\n')); err != nil {
			return err
		}
	}
}

func roundTrips(b *testing.B, conn net.Conn) {
	answers := bufio.NewReader(conn)
	request := []byte(benchPing)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := answers.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodePing(b *testing.B) {
	s := bareServer(b)
	line := []byte(strings.TrimSuffix(benchPing, "\n"))
	b.ReportAllocs()
	for b.Loop() {
		if req := s.decodeRequest(line, proof{}); req.refusal != nil {
			b.Fatal(req.refusal)
		}
	}
}

func BenchmarkEncodeDelta(b *testing.B) {
	ev := thread.Event{Kind: thread.EventAssistantDelta, Seq: 123456, OperationID: "operation_1767322800000_0123456789abcdef0123456789abcdef", Text: "some words that an agent says, <b>marked</b> & \"quoted\"\n"}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = EncodeEvent(buf[:0], "t0123456789abcdef", &ev)
	}
}

// BenchmarkEncodeDeltaGeneric is the baseline of BenchmarkEncodeDelta.
func BenchmarkEncodeDeltaGeneric(b *testing.B) {
	type line struct {
		Type  string `json:"type"`
		Event Event  `json:"event"`
	}
	v := line{"thread_event", Event{Type: "assistant_delta", Seq: 123456, ThreadID: "t0123456789abcdef", OperationID: "operation_1767322800000_0123456789abcdef0123456789abcdef", Text: "some words that an agent says, <b>marked</b> & \"quoted\"\n"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(&v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFanOut tells one delta to 100 subscribers; its baseline writes the
// prepared line to 100 sockets one by one.
func BenchmarkFanOut(b *testing.B) {
	const subscribers, deltas = 100, 50
	r := newRig(b)
	id := r.createThread(b)
	var readers []*bufio.Reader
	for range subscribers {
		conn, err := net.Dial("tcp4", r.addr)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, `{"requestId":"s","type":"subscribe_thread","payload":{"threadId":%q}}`+"\n", id)
		lines := bufio.NewReader(conn)
		if _, err := lines.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
		readers = append(readers, lines)
	}
	ev := thread.Event{Kind: thread.EventAssistantDelta, Text: strings.Repeat("x", 80), OperationID: "o"}
	for b.Loop() {
		for range deltas {
			r.threads.tell(id, ev)
		}
		readAll(b, readers, deltas)
	}
	b.ReportMetric(float64(b.N*deltas*subscribers)/b.Elapsed().Seconds(), "deltas/s")
}

func BenchmarkFanOutOneByOne(b *testing.B) {
	const subscribers, deltas = 100, 50
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var writers []net.Conn
	var readers []*bufio.Reader
	for range subscribers {
		conn, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		server, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = server.Close() }()
		writers = append(writers, server)
		readers = append(readers, bufio.NewReader(conn))
	}
	line := EncodeEvent(nil, "t0123456789abcdef", &thread.Event{Kind: thread.EventAssistantDelta, Seq: 9, Text: strings.Repeat("x", 80), OperationID: "o"})
	for b.Loop() {
		for range deltas {
			for _, w := range writers {
				if _, err := w.Write(line); err != nil {
					b.Fatal(err)
				}
			}
		}
		readAll(b, readers, deltas)
	}
	b.ReportMetric(float64(b.N*deltas*subscribers)/b.Elapsed().Seconds(), "deltas/s")
}

func readAll(b *testing.B, readers []*bufio.Reader, lines int) {
	for _, r := range readers {
		for range lines {
			if _, err := r.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// bareServer is a server without connections.
func bareServer(t testing.TB) *Server {
	settings := &memorySettings{}
	s, err := New(Config{Threads: newMemoryThreads(), Providers: settings, Settings: settings, Operator: settings, Origins: newMemoryOrigins(), Token: testToken, Version: "1.2.3", InstanceID: "instance"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
