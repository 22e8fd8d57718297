package lifecycle

import (
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
