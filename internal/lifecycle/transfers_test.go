package lifecycle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestTransfersStopBeforeAnEndAndBeginAgainAfterAResume(t *testing.T) {
	start(t, func(b *bench) {
		id := b.createCustom()
		if err := b.End(b.Context(), anyone, id); err != nil {
			t.Fatal(err)
		}
		b.transfers.expect(t, "abort", "ended")
		if _, err := b.Resume(b.Context(), anyone, id); err != nil {
			t.Fatal(err)
		}
		b.transfers.expect(t, "reopen")
		b.store.setFail(errDisk)
		wantCode(t, b.End(b.Context(), anyone, id), fault.StorageFull)
		b.transfers.expect(t, "abort", "reopen")
	})
}

func TestTransfersStopBeforeAnAutomaticEnd(t *testing.T) {
	start(t, func(b *bench) {
		id, err := b.Create(b.Context(), anyone, thread.CreateRequest{Provider: thread.OpenCode, AutoEnd: true})
		if err != nil {
			t.Fatal(err)
		}
		b.watch(id).feed.Close()
		time.Sleep(DefaultDurations.AutoEnd + tick)
		synctest.Wait()
		b.transfers.expect(t, "abort", "ended")
		if s := b.snapshot(id); s.Status != thread.Ended {
			t.Fatalf("status = %v", s.Status)
		}
	})
}

func TestWhatAnUploadLeftBehindIsRemovedWhenItsThreadIsLoaded(t *testing.T) {
	staged := func(r *thread.Record) {
		r.Status, r.Active, r.BlockEnd, r.StagedUpload = thread.Idle, nil, 0, "assets/.pedelec-upl_1"
	}
	startOn(t, crashed("t1", staged), nil, func(b *bench) {
		if s := b.snapshot("t1"); s.Status != thread.Idle {
			t.Fatalf("status = %v", s.Status)
		}
		b.transfers.expect(t, "remove /custom assets/.pedelec-upl_1")
		if r := b.store.record("t1"); r.StagedUpload != "" {
			t.Fatalf("the record still names %q", r.StagedUpload)
		}
	})
}

func TestAStagedFileIsRememberedBeforeTheAnswer(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		if err := b.Stage(b.Context(), id, "x"); err != nil || b.store.record(id).StagedUpload != "x" {
			t.Fatalf("stage: %v, record %q", err, b.store.record(id).StagedUpload)
		}
		b.store.setFail(errDisk)
		wantCode(t, b.Stage(b.Context(), id, ""), fault.StorageFull)
		b.store.setFail(nil)
		if err := b.Stage(b.Context(), id, ""); err != nil || b.store.record(id).StagedUpload != "" {
			t.Fatalf("stage: %v, record %q", err, b.store.record(id).StagedUpload)
		}
	})
}
