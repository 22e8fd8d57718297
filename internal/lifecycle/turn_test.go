package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestATurnIsToldInOrder(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "hi")
		c := b.conversation()
		if got := c.turn().Text; got != "hi" {
			t.Fatalf("the provider was told %q", got)
		}
		c.says(delta("hel"))
		synctest.Wait()
		c.says(delta("l"), delta("o"), message("hello"), thread.Frame{Kind: thread.FrameUsage, Usage: thread.UsageReport{Tokens: 7}}, finished(thread.OutcomeSuccess))
		w.expect(
			"status_changed running (op)",
			"provider_session_id_updated (op)",
			"assistant_delta (op) hel",
			"assistant_delta (op) lo",
			"assistant_message (op) hello",
			"usage_updated",
			"status_changed idle (op)",
			"operation_completed (op) true",
		)
	})
}

func TestASecondTurnUsesTheOpenSession(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		for _, op := range []string{"one", "two"} {
			b.send(id, op, op)
			b.conversation().says(finished(thread.OutcomeSuccess))
			synctest.Wait()
		}
		if n := b.attaches(); n != 1 {
			t.Fatalf("the session was opened %d times, want once", n)
		}
	})
}

func TestADeadSessionIsResumedByTheNextTurn(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "one", "x")
		c := b.conversation()
		c.says(finished(thread.OutcomeSuccess))
		synctest.Wait()
		c.Close(b.Context())
		b.send(id, "two", "y")
		synctest.Wait()
		b.runtime.mu.Lock()
		defer b.runtime.mu.Unlock()
		if got := b.runtime.specs[1].SessionID; got != "session-1" {
			t.Fatalf("second attach asked for session %q, want session-1", got)
		}
	})
}

func TestARuntimeThatDiesInATurnFailsThatTurn(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		w.got()
		c.sink.Frame(thread.Frame{Kind: thread.FrameGone, Err: fault.New(fault.ProviderRuntimeDisconnected, "gone")})
		w.expect(
			"error (op) PROVIDER_RUNTIME_DISCONNECTED",
			"status_changed error (op)",
			"operation_completed (op) false PROVIDER_RUNTIME_DISCONNECTED",
		)
	})
}

func TestACancelThatTheProviderConfirms(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		w.got()
		c.onCancel = func(turn uint64) {
			c.sink.Frame(thread.Frame{Kind: thread.FrameFinished, Turn: turn, Outcome: thread.OutcomeCancelled})
		}
		got, err := b.Cancel(b.Context(), anyone, id, nil)
		if err != nil || !got.Cancelled || got.OperationID != "op" {
			t.Fatalf("cancel = %+v, %v", got, err)
		}
		w.expect("operation_completed (op) false OPERATION_CANCELLED", "status_changed idle")
	})
}

func TestACancelThatTheProviderIgnoresIsDecidedAfterFiveSeconds(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "op", "x")
		c := b.conversation()
		begin := time.Now()
		got, err := b.Cancel(b.Context(), anyone, id, nil)
		if err != nil || !got.Cancelled {
			t.Fatalf("cancel = %+v, %v", got, err)
		}
		if took := time.Since(begin); took != DefaultDurations.Stop {
			t.Fatalf("it took %v, want %v", took, DefaultDurations.Stop)
		}
		synctest.Wait()
		if len(c.abandoned) != 1 {
			t.Fatalf("abandoned turns = %v, want one", c.abandoned)
		}
	})
}

func TestACancelBeforeAnythingWasWrittenIsImmediate(t *testing.T) {
	start(t, func(b *bench) {
		b.runtime.attach = func(ctx context.Context, _ thread.SessionSpec) (thread.Attachment, error) {
			<-ctx.Done()
			return thread.Attachment{}, ctx.Err()
		}
		id := b.create()
		b.send(id, "op", "x")
		synctest.Wait()
		begin := time.Now()
		got, err := b.Cancel(b.Context(), anyone, id, nil)
		if err != nil || !got.Cancelled {
			t.Fatalf("cancel = %+v, %v", got, err)
		}
		if time.Since(begin) != 0 {
			t.Fatal("the cancel waited")
		}
	})
}

func TestAnAttachThatFinishesTooLateClosesItsSession(t *testing.T) {
	start(t, func(b *bench) {
		release := make(chan struct{})
		b.runtime.attach = func(context.Context, thread.SessionSpec) (thread.Attachment, error) {
			<-release
			return thread.Attachment{}, nil
		}
		id := b.create()
		b.send(id, "op", "x")
		synctest.Wait()
		if _, err := b.Cancel(b.Context(), anyone, id, nil); err != nil {
			t.Fatal(err)
		}
		close(release)
		if c := b.conversation(); c.closed != 1 {
			t.Fatalf("the late session was closed %d times, want once", c.closed)
		}
	})
}

func TestASessionThatDoesNotOpenTimesOut(t *testing.T) {
	start(t, func(b *bench) {
		b.runtime.attach = func(ctx context.Context, _ thread.SessionSpec) (thread.Attachment, error) {
			<-ctx.Done()
			return thread.Attachment{}, ctx.Err()
		}
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		w.got()
		time.Sleep(DefaultDurations.Start)
		w.expect("error (op) PROVIDER_TIMEOUT", "status_changed error (op)", "operation_completed (op) false PROVIDER_TIMEOUT")
	})
}

func TestTheSilenceWatchdogCountsFromTheLastFrame(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		c := b.conversation()
		w.got()
		for range 3 {
			time.Sleep(DefaultDurations.Silence - time.Minute)
			c.says(thread.Frame{Kind: thread.FrameActivity})
			w.expect()
		}
		time.Sleep(DefaultDurations.Silence + tick)
		w.expect() // the provider was asked to stop
		if len(c.cancelled) != 1 {
			t.Fatalf("cancelled = %v, want one turn", c.cancelled)
		}
		time.Sleep(DefaultDurations.Stop)
		w.expect("error (op) PROVIDER_TIMEOUT", "status_changed error (op)", "operation_completed (op) false PROVIDER_TIMEOUT")
	})
}

func TestAnUnusedSessionIsClosed(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "op", "x")
		c := b.conversation()
		c.says(finished(thread.OutcomeSuccess))
		time.Sleep(DefaultDurations.Session + tick)
		synctest.Wait()
		if c.closed != 1 {
			t.Fatalf("closed %d times, want once", c.closed)
		}
	})
}

func TestALateFrameOfAnOldTurnIsDropped(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "one", "x")
		c := b.conversation()
		old := c.turn().ID
		c.says(finished(thread.OutcomeSuccess))
		synctest.Wait()
		b.send(id, "two", "y")
		w := b.watch(id)
		synctest.Wait()
		c.sink.Frame(thread.Frame{Kind: thread.FrameDelta, Turn: old, Text: "stale"})
		c.sink.Frame(thread.Frame{Kind: thread.FrameFinished, Turn: old, Outcome: thread.OutcomeSuccess})
		w.expect()
	})
}

func TestAPrepareAsksForTheAcknowledgement(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		w := b.watch(id)
		op := "prep"
		if _, err := b.Prepare(b.Context(), anyone, id, &op); err != nil {
			t.Fatal(err)
		}
		c := b.conversation()
		if !strings.HasSuffix(c.turn().Text, thread.PrepareAck) {
			t.Fatalf("the prompt is %q", c.turn().Text)
		}
		w.got()
		c.says(delta("PEDELEC_"), message(thread.PrepareAck+"\n"), finished(thread.OutcomeSuccess))
		w.expect("status_changed idle (prep)", "operation_completed (prep) true")
		again, err := b.Prepare(b.Context(), anyone, id, nil)
		if err != nil || !again.AlreadyPrepared {
			t.Fatalf("second prepare = %+v, %v", again, err)
		}
	})
}

func TestTextFasterThanTheActorIsMergedThenDropped(t *testing.T) {
	var box inbox
	for range 4 * maxInboxBytes / 1024 {
		if doomed := box.put(delta(strings.Repeat("x", 1024))); doomed != 0 {
			t.Fatal("a delta doomed its turn")
		}
	}
	if box.bytes > maxInboxBytes {
		t.Fatalf("the inbox holds %d bytes", box.bytes)
	}
	if box.dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	message := thread.Frame{Kind: thread.FrameMessage, Turn: 3, Text: strings.Repeat("m", maxInboxBytes/2)}
	if doomed := box.put(message); doomed != 0 || len(box.queue) != 1 {
		t.Fatalf("doomed = %d with %d frames: the deltas had to make room", doomed, len(box.queue))
	}
	for box.bytes+cost(&message) <= maxFrameBytes {
		if doomed := box.put(message); doomed != 0 {
			t.Fatalf("doomed = %d at %d bytes", doomed, box.bytes)
		}
	}
	if doomed := box.put(message); doomed != 3 {
		t.Fatalf("doomed = %d, want turn 3", doomed)
	}
	if doomed := box.put(message); doomed != 0 {
		t.Fatal("the turn was doomed twice")
	}
	n := len(box.queue)
	if box.put(thread.Frame{Kind: thread.FrameFinished, Turn: 3}); len(box.queue) != n+1 {
		t.Fatal("the terminal frame found no room")
	}
}

func TestAnEmptyInboxTakesAFrameOfAnySize(t *testing.T) {
	var box inbox
	if doomed := box.put(thread.Frame{Kind: thread.FrameMessage, Turn: 1, Text: strings.Repeat("m", 3*maxInboxBytes)}); doomed != 0 {
		t.Fatal("the frame was refused")
	}
}

func TestATurnOfWhichNothingWasSentGoesToANewRuntime(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "one", "x")
		c := b.conversation()
		c.says(finished(thread.OutcomeSuccess))
		synctest.Wait()
		w := b.watch(id)
		c.mu.Lock()
		c.startErr = fault.New(fault.ProviderRuntimeDisconnected, "It was dead already.").Unsent()
		c.onStart = func() {
			c.alive = false
			c.sink.Frame(thread.Frame{Kind: thread.FrameGone, Err: fault.New(fault.ProviderRuntimeDisconnected, "gone")})
			c.sink.Frame(thread.Frame{Kind: thread.FrameFinished, Turn: 2, Outcome: thread.OutcomeFailed})
		}
		c.mu.Unlock()
		b.send(id, "two", "y")
		fresh := b.conversation()
		if fresh == c || fresh.turn().Text != "y" {
			t.Fatal("the turn did not go to a new conversation")
		}
		fresh.says(finished(thread.OutcomeSuccess))
		w.expect("status_changed running (two)", "status_changed idle (two)", "operation_completed (two) true")
	})
}

func TestATurnThatMayHaveArrivedIsNeverSentAgain(t *testing.T) {
	start(t, func(b *bench) {
		id := b.create()
		b.send(id, "one", "x")
		c := b.conversation()
		c.says(finished(thread.OutcomeSuccess))
		synctest.Wait()
		w := b.watch(id)
		c.mu.Lock()
		c.onStart = func() {
			c.alive = false
			c.sink.Frame(thread.Frame{Kind: thread.FrameGone, Err: fault.New(fault.ProviderRuntimeDisconnected, "gone")})
		}
		c.mu.Unlock()
		b.send(id, "two", "y")
		w.expect("status_changed running (two)", "error (two) PROVIDER_RUNTIME_DISCONNECTED", "status_changed error (two)",
			"operation_completed (two) false PROVIDER_RUNTIME_DISCONNECTED")
		if n := b.attaches(); n != 1 {
			t.Fatalf("%d sessions were opened", n)
		}
	})
}

func TestAWorkspaceThatIsGoneFailsTheTurnThatNeedsIt(t *testing.T) {
	start(t, func(b *bench) {
		id := b.createCustom()
		w := b.watch(id)
		b.workspaces.reopenErr = errors.New("it is gone")
		b.send(id, "op", "x")
		w.expect("status_changed running (op)", "error (op) WORKSPACE_OPEN_FAILED", "status_changed error (op)", "operation_completed (op) false WORKSPACE_OPEN_FAILED")
	})
}
