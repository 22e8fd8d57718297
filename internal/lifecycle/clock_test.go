package lifecycle

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

const day = 24 * time.Hour

// settableClock tells the time as time.Now does on a system whose clock is set: the
// wall clock jumps, the monotonic reading, by which durations are measured, does
// not. Time passes by itself, that of the bubble.
type settableClock struct {
	began time.Time
	off   atomic.Int64 // by how many nanoseconds the wall clock was set
}

func newSettableClock() *settableClock { return &settableClock{began: time.Now()} }

func (c *settableClock) now() time.Time {
	return withReading(time.Now().Add(time.Duration(c.off.Load())), time.Since(c.began))
}

// withReading adds a monotonic reading to a time. In a bubble time.Now has none, and
// nothing but time.Now makes one, so the bits are put together here as package time
// documents them in its source; its test finds out should that change.
func withReading(wall time.Time, reading time.Duration) time.Time {
	const hasReading, secondsBits = 1 << 63, 30
	since1885 := wall.Unix() - time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	var t time.Time
	bits := (*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&t))
	bits.wall = hasReading | uint64(since1885)<<secondsBits | uint64(wall.Nanosecond())
	bits.ext = int64(reading) + 1
	return t
}

func TestASettableClockJumpsAndMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSettableClock()
		before := c.now()
		if !before.Round(0).Equal(time.Now()) {
			t.Fatalf("the clock shows %v at %v", before, time.Now())
		}
		c.off.Store(int64(day))
		time.Sleep(time.Second)
		if after := c.now(); after.Sub(before) != time.Second || after.Round(0).Sub(before.Round(0)) != day+time.Second {
			t.Errorf("after a second %v was measured, and the wall clock moved by %v", after.Sub(before), after.Round(0).Sub(before.Round(0)))
		}
	})
}

// jumps runs a test with a clock that is set a day ahead, and back.
func jumps(t *testing.T, f func(b *bench, jump func())) {
	for name, by := range map[string]time.Duration{"a day ahead": day, "a day back": -day} {
		t.Run(name, func(t *testing.T) {
			var c *settableClock
			startOn(t, nil, func(cfg *Config) {
				c = newSettableClock()
				cfg.Now = c.now
			}, func(b *bench) {
				f(b, func() {
					synctest.Wait() // what came before has its time
					c.off.Add(int64(by))
				})
			})
		})
	}
}

func TestAClockJumpNeitherEndsNorProlongsASilentTurn(t *testing.T) {
	jumps(t, func(b *bench, jump func()) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		c.says(thread.Frame{Kind: thread.FrameActivity})
		w.got()
		time.Sleep(DefaultDurations.Silence / 2)
		jump()
		time.Sleep(DefaultDurations.Silence/2 - tick)
		w.expect()
		c.says(thread.Frame{Kind: thread.FrameActivity})
		jump()
		time.Sleep(DefaultDurations.Silence - 2*tick)
		w.expect()
		time.Sleep(DefaultDurations.Stop + 3*tick)
		w.expect("error (op) PROVIDER_TIMEOUT", "status_changed error (op)", "operation_completed (op) false PROVIDER_TIMEOUT")
	})
}

func TestAClockJumpChangesNoToolsTime(t *testing.T) {
	jumps(t, func(b *bench, jump func()) {
		id, _ := b.painting()
		answered := b.call(id, "", `{"color":"red"}`, nil)
		out := b.pending(id)
		jump()
		time.Sleep(30 * time.Second) // half of its time
		b.submit(id, out.RequestID, `"done"`)
		(<-answered).want(b.T, `"done"`)

		b.Log("the same result may come again for ten minutes, and not for a day")
		jump()
		time.Sleep(9 * time.Minute)
		b.submit(id, out.RequestID, `"done"`)
		time.Sleep(2 * time.Minute)
		err := b.SubmitToolResult(b.Context(), anyone, id, out.RequestID, []byte(`"done"`))
		wantCode(b.T, err, fault.PendingToolRequestNotFound)

		late := b.call(id, "", `{"color":"blue"}`, nil)
		jump()
		time.Sleep(time.Minute + tick)
		synctest.Wait()
		select {
		case a := <-late:
			wantCode(b.T, a.err, fault.ToolTimeout)
		default:
			b.Error("a call that nobody answers waits on")
		}
	})
}

func TestAnAnswerIsGivenAgainForTenSecondsWhateverTheClockDoes(t *testing.T) {
	jumps(t, func(b *bench, jump func()) {
		id, _ := b.painting()
		ask := func(within time.Duration) <-chan answer {
			first := b.call(id, "", `{"color":"red"}`, nil)
			b.submit(id, b.pending(id).RequestID, `"red"`)
			(<-first).want(b.T, `"red"`)
			jump()
			time.Sleep(within)
			return b.call(id, "", `{"color":"red"}`, nil)
		}
		select {
		case a := <-ask(9 * time.Second):
			a.want(b.T, `"red"`)
		default:
			b.Error("the answer was not given again")
		}
		time.Sleep(time.Minute)
		again := ask(11 * time.Second)
		select {
		case a := <-again:
			b.Errorf("an answer was given again after 11 seconds: %s, %v", a.value, a.err)
		default:
			b.submit(id, b.pending(id).RequestID, `"new"`)
			(<-again).want(b.T, `"new"`)
		}
	})
}

// TestRetentionAfterAClockJumpGoesByStoredTimes: times that were stored know the wall
// clock only. A jump of a day moves retention by that day, and by no more.
func TestRetentionAfterAClockJumpGoesByStoredTimes(t *testing.T) {
	jumps(t, func(b *bench, jump func()) {
		young := b.createCustom()
		ended := b.createCustom()
		if err := b.End(b.Context(), anyone, ended); err != nil {
			b.Fatal(err)
		}
		b.Start()
		jump()
		time.Sleep(DefaultRetention.Ended - 2*day)
		synctest.Wait()
		if s := b.snapshot(young); s.Status != thread.Idle {
			b.Errorf("the idle thread is %v two days early", s.Status)
		}
		if _, err := b.store.Load(ended); err != nil {
			b.Errorf("the ended thread went two days early: %v", err)
		}
		time.Sleep(4 * day)
		synctest.Wait()
		if _, err := b.store.Load(ended); !fault.Is(err, fault.ThreadNotFound) {
			b.Errorf("the ended thread is kept for longer than its time and the jump: %v", err)
		}
		if s := b.store.record(young).Status; s != thread.Ended {
			b.Errorf("the idle thread is %v after its time and the jump", s)
		}
	})
}

func TestEventsGoOnInOrderWhateverTheClockDoes(t *testing.T) {
	jumps(t, func(b *bench, jump func()) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "one", "x")
		c := b.conversation()
		jump()
		c.says(message("hello"), finished(thread.OutcomeSuccess))
		w.expect("status_changed running (one)", "provider_session_id_updated (one)", "assistant_message (one) hello", "status_changed idle (one)", "operation_completed (one) true")
		jump()
		b.send(id, "two", "x")
		w.expect("status_changed running (two)")
		c.says(finished(thread.OutcomeSuccess))
		w.expect("status_changed idle (two)", "operation_completed (two) true")
		page, err := b.ReadEvents(b.Context(), anyone, id, 0, 100)
		if err != nil {
			b.Fatal(err)
		}
		var last uint64
		for _, e := range page.Events {
			if e.Seq <= last {
				b.Errorf("number %d stands behind %d", e.Seq, last)
			}
			last = e.Seq
		}
	})
}
