package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// crashed is what a daemon called "before" left of a thread.
func crashed(id string, change func(r *thread.Record)) func(m *memStore) {
	return func(m *memStore) {
		r := thread.Record{
			ID: id, Revision: 3, Instance: "before", Provider: thread.OpenCode, Status: thread.Running,
			LatestSeq: 5, BlockEnd: 5 + thread.SequenceBlock,
			Workspace: thread.Workspace{Path: "/custom", Instance: "before"},
			Active:    &thread.ActiveOperation{ID: "op", Kind: thread.User},
		}
		if change != nil {
			change(&r)
		}
		_ = m.Commit(thread.Commit{Record: r, Operations: []thread.Operation{{ID: "op", Kind: thread.User, Text: "hi", AdmittedSeq: 3}}})
	}
}

func TestAnInterruptedTurnIsSettledWhenItsThreadIsAskedFor(t *testing.T) {
	startOn(t, crashed("t1", nil), nil, func(b *bench) {
		w := b.watch("t1")
		if s := w.feed.Snapshot(); s.Status != thread.Running || s.LatestSeq != 5+thread.SequenceBlock {
			t.Fatalf("the cut shows %v at %d, want the crash's state behind its block", s.Status, s.LatestSeq)
		}
		w.expect("operation_completed (op) false OPERATION_INTERRUPTED", "status_changed idle")
		s := b.snapshot("t1")
		if s.Status != thread.Idle || s.LastCompleted == nil || s.LastCompleted.Error.Code != fault.OperationInterrupted {
			t.Fatalf("snapshot = %+v", s)
		}
		if op := b.store.operation("t1", "op"); op.Completed == nil || op.Text != "hi" {
			t.Fatalf("stored operation = %+v", op)
		}
	})
}

func TestAThreadThatCannotGoOnIsEndedWhenItIsSettled(t *testing.T) {
	for name, change := range map[string]func(r *thread.Record){
		"stopping": func(r *thread.Record) { r.Status = thread.Stopping },
		"managed":  func(r *thread.Record) { r.Workspace.Managed = true },
		"auto end": func(r *thread.Record) { r.AutoEnd = true },
	} {
		t.Run(name, func(t *testing.T) {
			startOn(t, crashed("t1", change), nil, func(b *bench) {
				w := b.watch("t1")
				if s := w.feed.Snapshot(); s.Status != thread.Stopping {
					t.Fatalf("the cut shows %v", s.Status)
				}
				w.expect("ended", "operation_completed (op) false THREAD_ENDED", "status_changed ended")
			})
		})
	}
}

func TestReadersSeeTheCrashWhileItCannotBeSettled(t *testing.T) {
	startOn(t, func(m *memStore) { crashed("t1", nil)(m); m.setFail(errDisk) }, nil, func(b *bench) {
		if s := b.snapshot("t1"); s.Status != thread.Running {
			t.Fatalf("status = %v", s.Status)
		}
		op := "next"
		_, err := b.SendText(b.Context(), anyone, "t1", "x", &op)
		wantCode(t, err, fault.StorageFull)
		b.store.setFail(nil)
		time.Sleep(DefaultDurations.Retry)
		synctest.Wait()
		if s := b.snapshot("t1"); s.Status != thread.Idle {
			t.Fatalf("status = %v once there is space", s.Status)
		}
	})
}

func TestTheSweeperSettlesWhatNobodyAsksFor(t *testing.T) {
	startOn(t, func(m *memStore) {
		for i := range 100 {
			crashed(fmt.Sprintf("t%03d", i), nil)(m)
		}
	}, nil, func(b *bench) {
		b.Start()
		time.Sleep(DefaultDurations.SweepDelay - time.Second)
		synctest.Wait()
		if r := b.store.record("t000"); r.Status != thread.Running {
			t.Fatalf("settled too early: %v", r.Status)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i := range 100 {
			if r := b.store.record(fmt.Sprintf("t%03d", i)); r.Status != thread.Idle {
				t.Fatalf("thread %d is %v", i, r.Status)
			}
		}
	})
}

func TestRetentionDeletesAndEnds(t *testing.T) {
	old := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	startOn(t, func(m *memStore) {
		for id, status := range map[string]thread.Status{"ended": thread.Ended, "idle": thread.Idle, "failed": thread.Failed, "watched": thread.Idle} {
			_ = m.Commit(thread.Commit{Record: thread.Record{ID: id, Instance: "now", Status: status, UpdatedAt: old}})
		}
	}, nil, func(b *bench) {
		b.watch("watched")
		b.Start()
		time.Sleep(DefaultDurations.SweepDelay + time.Second)
		synctest.Wait()
		if _, err := b.store.Load("ended"); !fault.Is(err, fault.ThreadNotFound) {
			t.Fatalf("the old ended thread is still there: %v", err)
		}
		for id, want := range map[string]thread.Status{"idle": thread.Ended, "failed": thread.Ended, "watched": thread.Idle} {
			if got := b.store.record(id).Status; got != want {
				t.Errorf("%s is %v, want %v", id, got, want)
			}
		}
	})
}

func TestAThreadIsLoadedOnceAndUnloadedWhenUnused(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { b.snapshot(id) })
		}
		wg.Wait()
		if b.store.loads != 1 {
			t.Fatalf("loaded %d times", b.store.loads)
		}
		time.Sleep(DefaultDurations.Linger + tick)
		synctest.Wait()
		if n := len(b.registry.all()); n != 0 {
			t.Fatalf("%d threads are still loaded", n)
		}
		b.snapshot(id)
	})
}

func TestASubscribedThreadStaysLoaded(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(b.registry.all()); n != 1 {
			t.Fatalf("%d threads are loaded, want the subscribed one", n)
		}
		w.feed.Close()
		time.Sleep(DefaultDurations.Linger + tick)
		synctest.Wait()
		if n := len(b.registry.all()); n != 0 {
			t.Fatalf("%d threads are loaded after the subscription closed", n)
		}
	})
}

func TestAutoEndAfterTheLastSubscription(t *testing.T) {
	start(t, func(b *bench) {
		id, err := b.Create(b.Context(), anyone, thread.CreateRequest{Provider: thread.OpenCode, AutoEnd: true})
		if err != nil {
			t.Fatal(err)
		}
		w := b.watch(id)
		w.feed.Close()
		time.Sleep(DefaultDurations.AutoEnd - time.Second)
		w = b.watch(id) // a reload of the page
		time.Sleep(time.Minute)
		if s := b.snapshot(id); s.Status != thread.Idle {
			t.Fatalf("status = %v", s.Status)
		}
		w.feed.Close()
		time.Sleep(DefaultDurations.AutoEnd + tick)
		synctest.Wait()
		if s := b.snapshot(id); s.Status != thread.Ended {
			t.Fatalf("status = %v, want ended", s.Status)
		}
	})
}

func TestResumeChecksTheWorkspace(t *testing.T) {
	start(t, func(b *bench) {
		id := b.createCustom()
		if err := b.End(b.Context(), anyone, id); err != nil {
			t.Fatal(err)
		}
		b.workspaces.reopenErr = errors.New("it is gone")
		_, err := b.Resume(b.Context(), anyone, id)
		wantCode(t, err, fault.WorkspaceOpenFailed)
		if s := b.snapshot(id); s.Status != thread.Ended {
			t.Fatalf("a refused resume changed the status to %v", s.Status)
		}
		b.workspaces.reopenErr = nil
		s, err := b.Resume(b.Context(), anyone, id)
		if err != nil || s.Status != thread.Idle {
			t.Fatalf("resume = %+v, %v", s, err)
		}
	})
}

func TestAManagedWorkspaceOfAnEarlierDaemonIsGone(t *testing.T) {
	startOn(t, crashed("t1", func(r *thread.Record) { r.Workspace.Managed = true }), nil, func(b *bench) {
		_, err := b.Resume(b.Context(), anyone, "t1")
		wantCode(t, err, fault.WorkspaceOpenFailed)
	})
}

func TestDeletedThreadsAreUnknown(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		wantCode(t, b.Delete(b.Context(), anyone, id), fault.ThreadBusy)
		if err := b.End(b.Context(), anyone, id); err != nil {
			t.Fatal(err)
		}
		w := b.watch(id)
		if err := b.Delete(b.Context(), anyone, id); err != nil {
			t.Fatal(err)
		}
		w.expect()
		_, err := b.Snapshot(b.Context(), anyone, id)
		wantCode(t, err, fault.ThreadNotFound)
	})
}

func TestForeignOriginsAreRefused(t *testing.T) {
	start(t, func(b *bench) {
		page := thread.Caller{Origin: "https://a.example", OriginStated: true}
		id, err := b.Create(b.Context(), page, thread.CreateRequest{Provider: thread.OpenCode})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []thread.Caller{{}, {Origin: "https://b.example", OriginStated: true}, {OriginStated: true}} {
			_, err := b.Snapshot(b.Context(), c, id)
			wantCode(t, err, fault.ThreadAccessDenied)
		}
		for _, c := range []thread.Caller{page, {Token: true}} {
			if _, err := b.Snapshot(b.Context(), c, id); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
		}
		_, err = b.Create(b.Context(), thread.Caller{OriginStated: true}, thread.CreateRequest{Provider: thread.OpenCode})
		wantCode(t, err, fault.ThreadAccessDenied)
	})
}

func TestAFullMailboxIsOverloaded(t *testing.T) {
	m := newMailbox()
	for i := range maxRequests {
		if err := m.ask(thread.CallerID(i+1), thread.Cancel{}, make(chan thread.Reply, 1)); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, m.ask(999, thread.Cancel{}, make(chan thread.Reply, 1)), fault.Overloaded)
	m.put(thread.Shutdown{}) // there is always room for our own
}

func TestShutdownInterruptsAndSaysSo(t *testing.T) {
	start(t, func(b *bench) {
		kept, managed := b.createCustom(), b.create()
		b.send(kept, "op", "x")
		b.send(managed, "op", "x")
		synctest.Wait()
		w1, w2 := b.watch(kept), b.watch(managed)
		b.Drain(b.Context())
		w1.expect("operation_completed (op) false OPERATION_INTERRUPTED", "status_changed idle")
		w2.expect("operation_completed (op) false OPERATION_INTERRUPTED", "status_changed idle", "ended", "status_changed ended")
		op := "op"
		if got, err := b.SendText(b.Context(), anyone, kept, "x", &op); err != nil || !got.Replayed {
			t.Fatalf("a known duplicate = %+v, %v", got, err)
		}
		op = "new"
		_, err := b.SendText(b.Context(), anyone, kept, "x", &op)
		wantCode(t, err, fault.CoreRuntimeUnavailable)
		wantCode(t, b.End(b.Context(), anyone, kept), fault.CoreRuntimeUnavailable)
	})
}

func TestARequestThatIsGivenUpLeavesNoTrace(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "op", "x")
		b.conversation()
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { _, err := b.Cancel(ctx, anyone, id, nil); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; err == nil {
			t.Fatal("no error")
		}
		time.Sleep(DefaultDurations.Stop)
		synctest.Wait()
		if s := b.snapshot(id); s.Status != thread.Idle {
			t.Fatalf("status = %v: the cancel goes on without its caller", s.Status)
		}
	})
}

func TestATooLargeStoreLosesEndedThreadsOldestFirst(t *testing.T) {
	startOn(t, func(m *memStore) {
		for i := range 300 {
			status := thread.Ended
			if i%100 == 0 {
				status = thread.Idle
			}
			updated := time.Now().Add(time.Duration(i) * time.Second)
			_ = m.Commit(thread.Commit{Record: thread.Record{ID: fmt.Sprintf("t%03d", i), Instance: "now", Status: status, UpdatedAt: updated}})
		}
	}, func(c *Config) { c.Retention = Retention{StoreBytes: 99 << 10} }, func(b *bench) {
		b.Start()
		time.Sleep(DefaultDurations.SweepDelay + time.Second)
		synctest.Wait()
		for id, want := range map[string]bool{"t000": true, "t001": false, "t100": true, "t199": false, "t200": true} {
			_, err := b.store.Load(id)
			if kept := err == nil; kept != want {
				t.Errorf("%s: kept = %v, want %v", id, kept, want)
			}
		}
		if used, _ := b.store.UsedBytes(); used > 99<<10 {
			t.Errorf("%d bytes are used", used)
		}
	})
}

func TestASubscriberOfAMomentStillCounts(t *testing.T) {
	m := newMailbox()
	m.putWatchers(1)
	m.putWatchers(0)
	var b batch
	m.drain(&b)
	want := thread.WatchersChanged{Count: 0, Seen: true}
	if len(b.own) != 1 || b.own[0] != thread.Input(want) {
		t.Fatalf("reports = %+v, want %+v", b.own, want)
	}
}

func TestRetentionLeavesAThreadAloneThatIsUsedAgain(t *testing.T) {
	start(t, func(b *bench) {
		id := b.createCustom()
		listed, err := b.Thread(b.Context(), anyone, id)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(tick)
		b.send(id, "op", "x")
		synctest.Wait()
		if b.expire(listed) {
			t.Fatal("the thread was ended in its turn")
		}
		if s := b.snapshot(id); s.Status != thread.Running {
			t.Fatalf("status = %v", s.Status)
		}
	})
}

func TestTheSweeperStopsAtAFullDisk(t *testing.T) {
	startOn(t, func(m *memStore) {
		for i := range 1000 {
			crashed(fmt.Sprintf("t%04d", i), nil)(m)
		}
		m.setFail(errDisk)
	}, nil, func(b *bench) {
		b.Start()
		time.Sleep(DefaultDurations.SweepDelay + time.Second)
		synctest.Wait()
		if n := len(b.registry.all()); n > sweepParallel {
			t.Fatalf("%d threads were loaded on a full disk", n)
		}
		b.store.setFail(nil)
		time.Sleep(2 * DefaultDurations.SweepDelay)
		synctest.Wait()
		if left, _ := b.store.Unsettled("", 1); len(left) != 0 {
			t.Fatalf("%v is not settled though there is space again", left)
		}
		loads := b.store.loads
		time.Sleep(3 * DefaultDurations.SweepEvery)
		synctest.Wait()
		if b.store.loads != loads {
			t.Fatalf("%d settled threads were loaded again", b.store.loads-loads)
		}
	})
}

func TestALoadThatPanicsAnswersEverybody(t *testing.T) {
	g := registry{entries: map[string]*entry{}}
	begun := make(chan struct{})
	second := make(chan error, 1)
	go func() {
		<-begun
		_, _, err := g.acquire(t.Context(), "t1", nil)
		second <- err
	}()
	func() {
		defer func() { _ = recover() }()
		_, _, _ = g.acquire(t.Context(), "t1", func(string) (*actor, error) {
			close(begun)
			for waiting := false; !waiting; {
				g.mu.Lock()
				waiting = g.entries["t1"].refs == 2
				g.mu.Unlock()
			}
			panic("no")
		})
	}()
	wantCode(t, <-second, fault.Internal)
	if len(g.entries) != 0 {
		t.Fatal("the entry stays")
	}
}

func TestNothingBeginsInADaemonThatLeaves(t *testing.T) {
	start(t, func(b *bench) {
		id := b.createCustom()
		a, err := b.open(b.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		defer b.registry.release(a)
		a.mail.put(thread.Shutdown{})
		op := "op"
		_, err = b.SendText(b.Context(), anyone, id, "x", &op)
		wantCode(t, err, fault.CoreRuntimeUnavailable)
	})
}
