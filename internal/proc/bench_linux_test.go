package proc

import (
	"bytes"
	"os"
	"testing"
	"time"
)

// BenchmarkStopLadder stops a runtime that ignores TERM and has a descendant in
// its group and one in a session of its own, with the real waits. It reports
// the time from TERM until all of them are gone.
func BenchmarkStopLadder(b *testing.B) {
	f := newFixture(b)
	f.CloseWait, f.TermWait, f.DrainWait = DefaultCloseWait, DefaultTermWait, DefaultDrainWait
	var afterTerm time.Duration
	for b.Loop() {
		p := f.child(b, "ignore-term,group,session,hang")
		group, session := p.pid(b), p.pid(b)
		before := time.Now()
		p.Stop(nil)
		afterTerm += time.Since(before) - f.CloseWait
		if alive(p.PID) || alive(group) || alive(session) {
			b.Fatal("something is alive")
		}
	}
	b.ReportMetric(float64(afterTerm.Milliseconds())/float64(b.N), "ms-after-TERM")
}

// BenchmarkScan looks through all processes once.
func BenchmarkScan(b *testing.B) {
	for b.Loop() {
		if n, err := killRound(targets{ids: map[string]bool{"no such id": true}}); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
	names, err := readNames("/proc")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(names)), "entries")
}

// BenchmarkRoundTrip sends a frame through a child and back.
func BenchmarkRoundTrip(b *testing.B) {
	f := newFixture(b)
	back := make(chan struct{}, 1)
	p, err := f.Start(b.Context(), Spec{
		Path:    os.Args[0],
		Env:     []string{childEnv + "=echo", noExitPause},
		OnFrame: func(*Process, []byte) { back <- struct{}{} },
	})
	if err != nil {
		b.Fatal(err)
	}
	frame := bytes.TrimSuffix(deltas[:bytes.IndexByte(deltas, '\n')+1], []byte("\n"))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Write(b.Context(), frame); err != nil {
			b.Fatal(err)
		}
		<-back
	}
}
