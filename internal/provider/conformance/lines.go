package conformance

import (
	"strings"
)

// The behaviours of this file are about what a program writes that is no frame, or
// that comes in another form than it should.

func strayLines(b *bench) {
	r := b.start(Knobs{Noise: true})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:x | m:x | ok", "line banner", "line {\"half\":", "line [1]", "line {}", "flood", "say m x")
}

// inTurn runs a turn in which the program does a thing that hurts nothing, and
// another one behind it.
func inTurn(habit, say string) func(*bench) {
	return func(b *bench) {
		r := b.start(Knobs{})
		a, sink := r.Open(r.Spec("t1"))
		said := strings.TrimPrefix(say, "say m ")
		b.expect(a, sink, 1, "d:one | d:"+said+" | m:one"+said+" | ok", "say m one", habit, say)
		b.expect(a, sink, 2, "d:two | m:two | ok", "say m two")
		if pids := r.PIDs(); len(pids) != 1 {
			b.T.Errorf("processes %v", pids)
		}
	}
}

func garbled(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:a\uFFFDb | m:a\uFFFDb | ok", "garble", "say m a"+invalid+"b")
	b.expect(a, sink, 2, "d:x | m:x | ok", "say m x")
}

func lastLine(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:x | m:x | ok", "unended", "say m x")
	r.Until("the end of the process", func() bool { return len(r.PIDs()) == 0 })
	again, sink := r.Resume(r.Spec("t1"), a)
	b.expect(again, sink, 2, "d:on | m:on | ok", "say m on")
}

// lostWith runs a turn in which the program ends, or can be heard no more.
func lostWith(habit string) func(*bench) {
	return func(b *bench) {
		r := b.start(Knobs{})
		a, sink := r.Open(r.Spec("t1"))
		b.expect(a, sink, 1, "d:one | m:one | ok", "say m one")
		b.expect(a, sink, 2, "d:half | failed PROVIDER_RUNTIME_DISCONNECTED", "say m half", habit)
		again, sink := r.Resume(r.Spec("t1"), a)
		b.expect(again, sink, 3, "d:on | m:on | ok", "say m on")
	}
}

// endTooLong fails the turn at once: the watchdog would take half an hour.
func endTooLong(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	frames := b.Turn(a, sink, 1, b.text("say m x", "longend"))
	if got := Told(frames); !strings.HasPrefix(got, "d:x | ") || !strings.HasSuffix(got, " | failed PROVIDER_PROTOCOL_ERROR") {
		b.T.Error(got)
	}
	if e := frames[len(frames)-1].Err; e != nil && !strings.HasSuffix(e.Message(), "more than can be read.") {
		b.T.Errorf("%q", e.Message())
	}
	b.expect(a, sink, 2, "d:on | m:on | ok", "say m on")
}

func callTooLong(b *bench) {
	b.native()
	r := b.start(Knobs{})
	a, sink := r.Open(tools(r.Spec("t1")))
	got := Told(r.Turn(a, sink, 1, b.text("longtool add", "say m on")))
	if strings.Contains(got, "tool:") || !strings.HasSuffix(got, "m:on | ok") {
		b.T.Error(got)
	}
}
