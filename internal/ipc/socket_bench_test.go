package ipc

import (
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// BenchmarkPingRoundTripWebSocket is a request's way over a WebSocket; its
// baseline is BenchmarkPingRoundTrip, the same over TCP.
func BenchmarkPingRoundTripWebSocket(b *testing.B) {
	r := newRig(b)
	p := r.dialWeb(b, native())
	request := []byte(strings.TrimSuffix(benchPing, "\n"))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.ws.WriteMessage(websocket.TextMessage, request); err != nil {
			b.Fatal(err)
		}
		if _, _, err := p.ws.ReadMessage(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStreamWebSocket tells bursts of deltas to one subscriber, which go out
// together; its baseline is BenchmarkStreamTCP.
func BenchmarkStreamWebSocket(b *testing.B) {
	r := newRig(b)
	benchStream(b, r, r.dialWeb(b, native()))
}

func BenchmarkStreamTCP(b *testing.B) {
	r := newRig(b)
	benchStream(b, r, r.dial(b))
}

func benchStream(b *testing.B, r *rig, p client) {
	const burst = 500
	id := r.createThread(b)
	p.send(subscribe("s", id))
	p.line()
	events := make([]thread.Event, burst)
	for i := range events {
		events[i] = delta(strings.Repeat("x", 80))
	}
	for b.Loop() {
		r.threads.tell(id, events...)
		for range burst {
			p.line()
		}
	}
	b.ReportMetric(float64(b.N*burst)/b.Elapsed().Seconds(), "deltas/s")
}
