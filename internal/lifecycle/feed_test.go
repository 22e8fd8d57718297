package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestASubscriberThatFellBehindReadsTheJournal(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		long := strings.Repeat("m", 100<<10)
		for range 30 { // three times the ring
			c.says(message(long))
			synctest.Wait()
		}
		c.says(finished(thread.OutcomeSuccess))
		got := w.got()
		if len(got) != 2+30+2 {
			t.Fatalf("%d events, want each durable one once", len(got))
		}
		if got[0] != "status_changed running (op)" || got[33] != "operation_completed (op) true" {
			t.Fatalf("first %q, last %q", got[0], got[33])
		}
	})
}

func TestReplayFromACursor(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "op", "x")
		b.conversation().says(message("m"), finished(thread.OutcomeSuccess))
		synctest.Wait()

		all := b.watch(id, 0)
		if r := all.feed.Replay(); r.FromSeq != 1 || r.ToSeq != 7 || r.Truncated {
			t.Fatalf("replay = %+v", *r)
		}
		all.expect("created", "status_changed idle", "status_changed running (op)", "provider_session_id_updated (op)",
			"assistant_message (op) m", "status_changed idle (op)", "operation_completed (op) true")
		rest := b.watch(id, 5)
		rest.expect("status_changed idle (op)", "operation_completed (op) true")
		ahead := b.watch(id, 999)
		ahead.expect()
		if err := b.End(b.Context(), anyone, id); err != nil {
			t.Fatal(err)
		}
		ahead.expect("ended", "status_changed ended")
	})
}

func TestAReplayThatTheJournalCannotServeIsTruncated(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "op", "x")
		b.conversation().says(message("m"), finished(thread.OutcomeSuccess))
		synctest.Wait()
		b.store.mu.Lock()
		b.store.threads[id].trimmed = 4
		b.store.mu.Unlock()
		w := b.watch(id, 1)
		if r := w.feed.Replay(); !r.Truncated {
			t.Fatalf("replay = %+v, want truncated", *r)
		}
		w.expect("assistant_message (op) m", "status_changed idle (op)", "operation_completed (op) true")
	})
}

func TestTheAnswerToAnEndWaitsForSubscribers(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		slow := b.watch(id)
		begin := time.Now()
		if err := b.End(b.Context(), anyone, id); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != DefaultDurations.Barrier {
			t.Fatalf("with a slow subscriber it took %v", took)
		}
		slow.expect("ended", "status_changed ended")

		begin = time.Now()
		if err := b.End(b.Context(), anyone, id); err != nil || time.Since(begin) != 0 {
			t.Fatalf("a repeated end took %v, %v", time.Since(begin), err)
		}
	})
}

func TestTheAnswerToAnEndLeavesOnceAllHaveWritten(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		done := make(chan error, 1)
		begin := time.Now()
		go func() { done <- b.End(b.Context(), anyone, id) }()
		synctest.Wait()
		w.got()
		if err := <-done; err != nil || time.Since(begin) != 0 {
			t.Fatalf("end took %v, %v", time.Since(begin), err)
		}
	})
}

func TestAClosedSubscriptionHoldsNothingBack(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		done := make(chan error, 1)
		go func() { done <- b.End(b.Context(), anyone, id) }()
		synctest.Wait()
		w.feed.Close()
		w.feed.Close()
		begin := time.Now()
		if err := <-done; err != nil || time.Since(begin) != 0 {
			t.Fatalf("end took %v, %v", time.Since(begin), err)
		}
	})
}

func TestGroupsAreNeverSplit(t *testing.T) {
	view := thread.State{}
	r := newRing(view)
	f := &feed{a: &actor{ring: r}, wake: make(chan struct{}, 1)}
	r.feeds[f] = struct{}{}
	var lines []line
	for i := uint64(1); i <= 9; i++ {
		lines = append(lines, line{seq: i, grouped: i%3 != 0, bytes: []byte(fmt.Sprint(i))})
	}
	view.LatestSeq = 9
	r.publish(&view, lines)
	var sizes []int
	for {
		got, _, err := f.Take(1)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		sizes = append(sizes, len(got))
	}
	if !slices.Equal(sizes, []int{3, 3, 3}) {
		t.Fatalf("writes of %v lines, want groups of 3", sizes)
	}
}

func TestAReplaySaysWhetherTextIsLeftOut(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		if r := b.watch(id, 0).feed.Replay(); r.DeltasOmitted {
			t.Fatalf("replay of a thread without text = %+v", *r)
		}
		b.send(id, "op", "x")
		b.conversation().says(delta("a"), message("a"), finished(thread.OutcomeSuccess))
		time.Sleep(DefaultDurations.Session + DefaultDurations.Linger + tick)
		synctest.Wait()
		if r := b.watch(id, 0).feed.Replay(); !r.DeltasOmitted {
			t.Fatalf("replay of a thread with text = %+v", *r)
		}
	})
}
