package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestACommandThatCannotBeStoredIsRefused(t *testing.T) {
	start(t, func(b *bench) {
		id := b.createCustom()
		w := b.watch(id)
		b.store.setFail(errDisk)
		op := "op"
		_, err := b.SendText(b.Context(), anyone, id, "x", &op)
		wantCode(t, err, fault.StorageFull)
		wantCode(t, b.End(b.Context(), anyone, id), fault.StorageFull)
		w.expect()
		b.store.setFail(nil)
		again, err := b.SendText(b.Context(), anyone, id, "x", &op)
		if err != nil || again.Replayed {
			t.Fatalf("the fresh attempt = %+v, %v", again, err)
		}
	})
}

func TestTheProvidersSuccessArrivesOnceThereIsSpaceAgain(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		w.got()
		b.store.setFail(errDisk)
		c.says(message("the answer"), delta("lost"), finished(thread.OutcomeSuccess))
		w.expect()
		if got := b.snapshot(id).Status; got != thread.Running {
			t.Fatalf("status = %v while nothing can be stored", got)
		}
		_, err := b.Cancel(b.Context(), anyone, id, nil)
		wantCode(t, err, fault.StorageFull)
		b.store.setFail(nil)
		time.Sleep(DefaultDurations.Retry)
		w.expect("assistant_message (op) the answer", "status_changed idle (op)", "operation_completed (op) true")
	})
}

func TestADuplicateIsAnsweredWhileTheDiskIsFull(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "op", "x")
		c := b.conversation()
		b.store.setFail(errDisk)
		c.says(finished(thread.OutcomeSuccess))
		synctest.Wait()
		op := "op"
		got, err := b.SendText(b.Context(), anyone, id, "x", &op)
		if err != nil || !got.Replayed {
			t.Fatalf("duplicate = %+v, %v", got, err)
		}
		other := "other"
		_, err = b.SendText(b.Context(), anyone, id, "x", &other)
		wantCode(t, err, fault.StorageFull)
	})
}

func TestTooMuchWorkForAFullDiskStopsTheTurn(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		w.got()
		b.store.setFail(errDisk)
		chunk := strings.Repeat("m", 512<<10)
		for range 12 {
			c.says(message(chunk))
			synctest.Wait()
		}
		if len(c.cancelled) != 1 {
			t.Fatalf("cancelled = %v, want the turn once", c.cancelled)
		}
		b.store.setFail(nil)
		time.Sleep(DefaultDurations.Retry + DefaultDurations.Stop)
		got := w.got()
		if len(got) != 10 {
			t.Fatalf("%d events, want the 7 messages that had room and the failure", len(got))
		}
		if last := got[len(got)-1]; last != "operation_completed (op) false STORAGE_FULL" {
			t.Fatalf("last event = %q", last)
		}
	})
}

func TestAnEndWhoseSecondHalfCannotBeStoredGoesOnByItself(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		w.got()
		c.onCancel = func(turn uint64) {
			b.store.setFail(errDisk)
			c.sink.Frame(thread.Frame{Kind: thread.FrameFinished, Turn: turn, Outcome: thread.OutcomeCancelled})
		}
		wantCode(t, b.End(b.Context(), anyone, id), fault.StorageFull)
		w.expect("status_changed stopping")
		b.store.setFail(nil)
		time.Sleep(DefaultDurations.Retry)
		w.expect("ended", "operation_completed (op) false THREAD_ENDED", "status_changed ended")
	})
}

func TestACreationThatCannotBeStoredLeavesNoWorkspace(t *testing.T) {
	start(t, func(b *bench) {
		b.store.setFail(errDisk)
		_, err := b.Create(b.Context(), anyone, thread.CreateRequest{Provider: thread.OpenCode})
		wantCode(t, err, fault.StorageFull)
		if b.workspaces.undone != 1 {
			t.Fatalf("undone = %d, want 1", b.workspaces.undone)
		}
	})
}

func TestDeltasNeverUseANumberThatIsNotReserved(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "op", "x")
		c := b.conversation()
		for range 3 {
			for range thread.SequenceBlock {
				c.says(delta("."))
			}
			synctest.Wait()
		}
		b.store.mu.Lock()
		m := b.store.threads[id]
		reserved := max(m.block, m.loaded.Record.BlockEnd)
		b.store.mu.Unlock()
		if latest := b.snapshot(id).LatestSeq; latest > reserved {
			t.Fatalf("number %d was told, but only %d are reserved", latest, reserved)
		}
	})
}

func (b *bench) snapshot(id string) thread.Snapshot {
	b.Helper()
	s, err := b.Snapshot(b.Context(), anyone, id)
	if err != nil {
		b.Fatalf("snapshot: %v", err)
	}
	return s
}

var errUndecided = fault.New(fault.StorageFailed, "the test's disk does not say")

func TestARefusedCommandThatWasStoredAllTheSameHappens(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.store.setLie(errUndecided)
		op := "op"
		_, err := b.SendText(b.Context(), anyone, id, "x", &op)
		wantCode(t, err, fault.StorageFailed)
		w.expect()
		time.Sleep(DefaultDurations.Retry)
		w.expect("status_changed running (op)", "provider_session_id_updated (op)")
		again, err := b.SendText(b.Context(), anyone, id, "x", &op)
		if err != nil || !again.Replayed {
			t.Fatalf("the repeated request = %+v, %v", again, err)
		}
		if n := len(b.conversation().turns); n != 1 {
			t.Fatalf("the provider was told %d turns, want one", n)
		}
	})
}

func TestARefusedCommandThatWasNotStoredLeavesNothingBehind(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.store.setFail(errUndecided)
		op := "op"
		_, err := b.SendText(b.Context(), anyone, id, "x", &op)
		wantCode(t, err, fault.StorageFailed)
		b.store.setFail(nil)
		time.Sleep(DefaultDurations.Retry)
		w.expect()
		b.send(id, "other", "y")
		w.expect("status_changed running (other)", "provider_session_id_updated (other)")
	})
}

func TestAProvidersFrameThatWasStoredAllTheSameIsToldOnce(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		w.got()
		b.store.setLie(errUndecided)
		c.says(message("m"), finished(thread.OutcomeSuccess))
		time.Sleep(DefaultDurations.Retry + tick)
		w.expect("assistant_message (op) m", "status_changed idle (op)", "operation_completed (op) true")
		again := b.watch(id, 4)
		again.expect("assistant_message (op) m", "status_changed idle (op)", "operation_completed (op) true")
	})
}

func TestADeletionThatWasStoredAllTheSameHappens(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		if err := b.End(b.Context(), anyone, id); err != nil {
			t.Fatal(err)
		}
		b.store.setFail(errUndecided)
		wantCode(t, b.Delete(b.Context(), anyone, id), fault.StorageFailed)
		b.store.mu.Lock()
		b.store.fail = nil
		delete(b.store.threads, id)
		b.store.mu.Unlock()
		time.Sleep(DefaultDurations.Retry)
		synctest.Wait()
		_, err := b.Snapshot(b.Context(), anyone, id)
		wantCode(t, err, fault.ThreadNotFound)
	})
}

func TestAChangeThatCanNeverBeStoredStopsItsTurn(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		w.got()
		b.store.setFail(fault.New(fault.Internal, "the test's store refuses this for good"))
		c.says(message("too much"))
		synctest.Wait()
		b.store.setFail(nil)
		time.Sleep(DefaultDurations.Stop)
		w.expect("error (op) INTERNAL", "status_changed error (op)", "operation_completed (op) false INTERNAL")
		if len(c.cancelled) != 1 {
			t.Fatalf("cancelled = %v, want the turn once", c.cancelled)
		}
	})
}

func TestNativeCallsAreAnsweredWhileTheDiskIsFull(t *testing.T) {
	start(t, func(b *bench) {
		_, c := b.painting()
		b.store.setFail(errDisk)
		c.says(message("held"))
		synctest.Wait()
		for i := range 40 {
			c.says(thread.Frame{Kind: thread.FrameToolCall, Call: thread.ToolCall{CallID: string(rune('a' + i)), Name: "paint", Args: []byte(`{}`)}})
			synctest.Wait()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.answers) != 40 || !strings.Contains(c.answers[0], "STORAGE_FULL") {
			t.Fatalf("%d answers, first %v", len(c.answers), c.answers[:min(1, len(c.answers))])
		}
	})
}

func TestABurstOfTextKeepsItsSequenceNumbersComing(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "op", "x")
		c := b.conversation()
		long := strings.Repeat("x", mergeBytes)
		for range 30 {
			for range 400 {
				c.says(delta(long))
			}
			synctest.Wait()
		}
		if latest := b.snapshot(id).LatestSeq; latest < 2*thread.SequenceBlock {
			t.Fatalf("only %d numbers were told; the next block never came", latest)
		}
	})
}

// TestADamagedThreadDoesNotKeepTheSweeperFromTheOthers: one thread that could not be
// loaded once kept all behind it unsettled, and retention from beginning.
func TestADamagedThreadDoesNotKeepTheSweeperFromTheOthers(t *testing.T) {
	old := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	startOn(t, func(m *memStore) {
		for i := range 100 {
			crashed(fmt.Sprintf("t%03d", i), nil)(m)
		}
		_ = m.Commit(thread.Commit{Record: thread.Record{ID: "ended", Instance: "now", Status: thread.Ended, UpdatedAt: old}})
		m.unreadable = []string{"t003", "t050"}
		m.unwritable = []string{"t004"}
	}, nil, func(b *bench) {
		b.Start()
		time.Sleep(DefaultDurations.SweepDelay + time.Second)
		synctest.Wait()
		for i := range 100 {
			id, want := fmt.Sprintf("t%03d", i), thread.Idle
			if i == 3 || i == 4 || i == 50 {
				want = thread.Running
			}
			if r := b.store.record(id); r.Status != want {
				t.Errorf("%s is %v, want %v", id, r.Status, want)
			}
		}
		if _, err := b.store.Load("ended"); !fault.Is(err, fault.ThreadNotFound) {
			t.Errorf("retention did not begin: %v", err)
		}
		b.store.mu.Lock()
		b.store.unwritable = nil
		b.store.mu.Unlock()
	})
}
