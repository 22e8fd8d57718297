package ipc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func subscribe(id, threadID string) string {
	return fmt.Sprintf(`{"requestId":%q,"type":"subscribe_thread","payload":{"threadId":%q}}`, id, threadID)
}

func delta(text string) thread.Event {
	return thread.Event{Kind: thread.EventAssistantDelta, Text: text, OperationID: "o"}
}

func TestTheAnswerOfASubscribeComesBeforeItsEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		id := r.createThread(t)
		for i := range 50 {
			p := r.connect(t)
			p.send(subscribe("s", id))
			r.threads.tell(id, delta("x"))
			answer := p.line()
			hasAll(t, answer, `{"requestId":"s","ok":true,"result":{"subscribed":true,"snapshot":{"threadId"`)
			if strings.Contains(answer, "replay") {
				t.Fatal("a replay without a cursor")
			}
			r.threads.tell(id, delta("y"))
			hasAll(t, p.line(), `{"type":"thread_event","event":{"type":"assistant_delta","seq":`)
			_ = i
		}
	})
}

func TestASubscriptionWithACursorReplays(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		id := r.createThread(t)
		p := r.connect(t)
		p.send(fmt.Sprintf(`{"requestId":"s","type":"subscribe_thread","payload":{"threadId":%q,"afterSeq":0}}`, id))
		hasAll(t, p.line(), `"replay":{"fromSeq":1,"toSeq":2,"truncated":false,"deltasOmitted":false}}`)
		hasAll(t, p.line(), `"type":"created","seq":1`)
		hasAll(t, p.line(), `"type":"status_changed","seq":2`)
	})
}

func TestASecondSubscriptionOfAThreadReplacesTheFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		id := r.createThread(t)
		p := r.connect(t)
		p.send(subscribe("1", id), subscribe("2", id))
		p.line()
		p.line()
		if n := r.threads.feedCount(id); n != 1 {
			t.Fatalf("%d feeds are open, want 1", n)
		}
		r.threads.tell(id, delta("once"))
		r.threads.tell(id, delta("end"))
		hasAll(t, p.line(), "once")
		hasAll(t, p.line(), "end")
	})
}

func TestAFailedSecondSubscriptionKeepsTheFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		id := r.createThread(t)
		p := r.connect(t)
		p.send(subscribe("1", id))
		p.line()
		r.threads.mu.Lock()
		r.threads.fail["Subscribe"] = fault.New(fault.StorageFailed, "")
		r.threads.mu.Unlock()
		p.send(subscribe("2", id))
		hasAll(t, p.line(), "STORAGE_FAILED")
		r.threads.tell(id, delta("still"))
		hasAll(t, p.line(), "still")
	})
}

func TestNoEventFollowsTheAnswerOfAnUnsubscribe(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		id := r.createThread(t)
		p := r.connect(t)
		for range 30 {
			p.send(subscribe("s", id))
			for !strings.Contains(p.line(), `"requestId":"s"`) {
			}
			stop := make(chan struct{})
			told := make(chan struct{})
			go func() {
				defer close(told)
				for {
					select {
					case <-stop:
						return
					default:
						r.threads.tell(id, delta("noise"))
					}
				}
			}()
			p.send(fmt.Sprintf(`{"requestId":"u","type":"unsubscribe_thread","payload":{"threadId":%q}}`, id))
			for !strings.Contains(p.line(), `"requestId":"u"`) {
			}
			p.send(ping("p"))
			hasAll(t, p.line(), `"requestId":"p"`)
			close(stop)
			<-told
		}
	})
}

func TestUnsubscribeOfAForeignThreadIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		p := r.connect(t)
		p.send(`{"requestId":"u","type":"unsubscribe_thread","payload":{"threadId":"nobody"}}`)
		hasAll(t, p.line(), "THREAD_NOT_FOUND")
	})
}

func TestASubscriberBehindTheTrimmedJournalIsDisconnectedAfterItsRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		id := r.createThread(t)
		p := r.connect(t)
		p.send(subscribe("s", id))
		p.line()
		hold := make(chan struct{})
		r.threads.mu.Lock()
		r.threads.hold["Snapshot"] = hold
		r.threads.mu.Unlock()
		p.send(fmt.Sprintf(`{"requestId":"hand","type":"thread_snapshot","payload":{"threadId":%q}}`, id))
		if m := <-r.threads.entered; m != "Snapshot" {
			t.Fatalf("entered %s first", m)
		}
		r.threads.mu.Lock()
		r.threads.threads[id].trim = 99
		r.threads.mu.Unlock()
		r.threads.tell(id, delta("unreachable"))
		if m := <-r.threads.entered; m != "Close" {
			t.Fatalf("%s, want the feed to be closed", m)
		}
		close(hold)
		hasAll(t, p.line(), `"requestId":"hand"`, `"ok":true`)
		p.halfClose()
		p.ended()
	})
}

func TestAConnectionMayHaveSixtyFourSubscriptions(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		p := r.connect(t)
		for i := range MaxSubscriptions + 1 {
			p.send(subscribe("s", r.createThread(t)))
			line := p.line()
			if i < MaxSubscriptions {
				hasAll(t, line, `"ok":true`)
			} else {
				hasAll(t, line, "OVERLOADED")
			}
		}
		first := r.ids()[0]
		p.send(subscribe("again", first)) // replaces, so there is room
		hasAll(t, p.line(), `"ok":true`)
		for _, id := range r.ids()[:MaxSubscriptions] {
			r.threads.tell(id, delta("for "+id))
		}
		for range MaxSubscriptions {
			hasAll(t, p.line(), "thread_event")
		}
	})
}

func TestEventsOfManyThreadsComeEachOnceAndInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		p := r.connect(t)
		const threads, events = 8, 500
		for range threads {
			p.send(subscribe("s", r.createThread(t)))
			p.line()
		}
		done := make(chan struct{})
		for _, id := range r.ids() {
			go func() {
				for range events {
					r.threads.tell(id, delta("text"))
				}
				done <- struct{}{}
			}()
		}
		last := map[string]uint64{}
		for range threads * events {
			var told struct {
				Event Event `json:"event"`
			}
			decode(t, p.line(), &told)
			if prev := last[told.Event.ThreadID]; prev != 0 && told.Event.Seq != prev+1 {
				t.Fatalf("seq %d after %d", told.Event.Seq, prev)
			}
			last[told.Event.ThreadID] = told.Event.Seq
		}
		for range threads {
			<-done
		}
	})
}

func TestShutdownTellsSubscribersWhatIsReady(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		id := r.createThread(t)
		p := r.connect(t)
		p.send(subscribe("s", id))
		p.line()
		for range 1000 {
			r.threads.tell(id, delta("text"))
		}
		if err := r.server.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			hasAll(t, p.line(), "thread_event")
		}
		p.ended()
	})
}
