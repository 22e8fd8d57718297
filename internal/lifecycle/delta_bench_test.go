package lifecycle

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// steadyTurn returns an actor in a running turn, not started, so that a
// benchmark can feed it by hand.
func steadyTurn(tb testing.TB) *actor {
	store := newMemStore("now")
	s := New(Config{
		Store: store, Runtimes: newMemRuntime(), Workspaces: &memWorkspaces{}, Transfers: &memTransfers{}, Profiles: memProfiles{},
		Encode:   func(dst []byte, _ string, ev *thread.Event) []byte { return append(append(dst, ev.Text...), '\n') },
		Instance: "now", Log: zerolog.Nop(),
	})
	tb.Cleanup(func() { _ = s.Close(context.Background()) })
	a := s.newActor(thread.Loaded{Record: thread.Record{ID: "t1", Instance: "now", Status: thread.Idle, LatestSeq: 2, Provider: thread.OpenCode}}, thread.Operation{})
	_ = store.Commit(thread.Commit{Record: a.state.Record})
	a.linger = time.NewTimer(time.Hour)
	a.try(thread.Admit{Kind: thread.User, OperationID: "op", Text: "x"})
	a.try(thread.Attached{Turn: a.state.TurnID(), SessionID: "s"})
	a.try(thread.Started{Turn: a.state.TurnID()})
	a.timers.stopAll()
	awaitRunner(a)
	return a
}

// awaitRunner returns when the runner has opened its session and started the
// turn: from then on no new sink outdates the one that deltas are fed through.
func awaitRunner(a *actor) {
	for !a.runner.idle() {
		<-a.mail.wake
	}
}

func oneDelta(a *actor, b *batch, s sink, text string) {
	s.Frame(thread.Frame{Kind: thread.FrameDelta, Turn: a.state.TurnID(), Text: text})
	a.mail.drain(b)
	a.handle(b)
	a.try(thread.BlockReserved{Turn: a.state.TurnID(), End: a.state.LatestSeq + thread.SequenceBlock})
}

func TestADeltaCostsFewAllocations(t *testing.T) {
	a := steadyTurn(t)
	s := a.mail.newSink()
	var b batch
	const text = "some words of text"
	for range 2 * maxRingBytes / 64 { // fill the ring and the open message once
		oneDelta(a, &b, s, text)
	}
	// The encoded line and the two inputs as interfaces; what growing slices
	// amortise is below one in a thousand.
	const deltas = 1000
	before := a.state.LatestSeq
	if n := testing.AllocsPerRun(deltas, func() { oneDelta(a, &b, s, text) }); n > 3 {
		t.Errorf("%.1f allocations for a delta, want at most 3", n)
	}
	if told := a.state.LatestSeq - before; told < deltas {
		t.Errorf("%d of %d deltas were told; the others were dropped, so nothing was measured", told, deltas)
	}
}

// BenchmarkDelta measures a delta from the runtime's sink to the ring, and, as a
// baseline, the copy of the same text into a fresh line.
func BenchmarkDelta(b *testing.B) {
	const text = "some words of text"
	b.Run("copy", func(b *testing.B) {
		b.ReportAllocs()
		var line []byte
		for b.Loop() {
			line = append([]byte(nil), text...)
		}
		_ = line
	})
	b.Run("actor", func(b *testing.B) {
		b.ReportAllocs()
		a := steadyTurn(b)
		s := a.mail.newSink()
		var bt batch
		before := a.state.LatestSeq
		for b.Loop() {
			oneDelta(a, &bt, s, text)
		}
		if told := a.state.LatestSeq - before; told < uint64(b.N) {
			b.Fatalf("%d of %d deltas were told", told, b.N)
		}
	})
}
