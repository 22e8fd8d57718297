package ipc

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestSnapshotOnTheWire(t *testing.T) {
	full := thread.Snapshot{
		ThreadID: "t1", Status: thread.WaitingToolResult, LatestSeq: 9,
		Usage:         thread.Usage{Known: true},
		Active:        &thread.ActiveOperation{ID: "o2", Kind: thread.User, StartedAt: testTime},
		LastCompleted: &thread.CompletedOperation{ID: "o1", Kind: thread.Prepare, Error: fault.New(fault.PrepareAckInvalid, "no"), CompletedAt: testTime.In(time.FixedZone("x", 3600))},
		PendingTool:   &thread.PendingTool{RequestID: "r", OperationID: "o2", ToolName: "n", Args: jsontext.Value(`{}`), CreatedAt: testTime, Timeout: time.Minute},
		ActiveMessage: "so far",
	}
	for name, c := range map[string]struct {
		s    thread.Snapshot
		want string
	}{
		"bare": {thread.Snapshot{ThreadID: "t1", Status: thread.Idle, LatestSeq: 2}, `{"threadId":"t1","status":"idle","latestSeq":2}`},
		"full": {full, `{"threadId":"t1","status":"waitingToolResult","latestSeq":9,"usage":{"totalTokens":0},` +
			`"activeOperation":{"operationId":"o2","operationKind":"user","startedAt":"2026-01-02T03:04:05.678Z"},` +
			`"lastCompletedOperation":{"operationId":"o1","operationKind":"prepare","success":false,"error":{"code":"PREPARE_ACK_INVALID","message":"no"},"completedAt":"2026-01-02T03:04:05.678Z"},` +
			`"pendingToolRequest":{"requestId":"r","threadId":"t1","operationId":"o2","toolName":"n","args":{},"createdAt":"2026-01-02T03:04:05.678Z","timeoutMs":60000},` +
			`"activeMessage":{"text":"so far"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(appendSnapshot(nil, &c.s))
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			var s Snapshot
			decode(t, got, &s)
		})
	}
}

func TestListsAreCutToOneLine(t *testing.T) {
	r := newRig(t)
	for i := range 900 {
		r.threads.list = append(r.threads.list, thread.Summary{ThreadID: "t" + string(rune('a'+i/30)) + string(rune('a'+i%30)), WorkspacePath: strings.Repeat("p", 2000)})
	}
	p := r.dial(t)
	seen, after := 0, ""
	for pages := 0; ; pages++ {
		p.send(`{"requestId":"l","type":"list_threads","authToken":"` + testToken + `","payload":{"limit":5000,"after":"` + after + `"}}`)
		line := p.line()
		if len(line) > MaxOutLineBytes {
			t.Fatalf("a line of %d bytes", len(line))
		}
		var answer struct {
			Result ThreadList `json:"result"`
		}
		decode(t, line, &answer)
		seen += len(answer.Result.Threads)
		if after = answer.Result.Next; after == "" {
			if pages == 0 {
				t.Fatal("nothing was cut")
			}
			break
		}
		if last := answer.Result.Threads[len(answer.Result.Threads)-1].ThreadID; last != after {
			t.Fatalf("next is %s after %s", after, last)
		}
	}
	if seen != 900 {
		t.Fatalf("%d threads in all pages, want 900", seen)
	}
}

func TestReadEventsIsCutToOneLineAndGoesOn(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	for range 30 {
		r.threads.tell(id, thread.Event{Kind: thread.EventAssistantMessage, OperationID: "o", Text: strings.Repeat("x", 100_000)})
	}
	p := r.dial(t)
	var after uint64
	for after < 32 {
		p.send(`{"requestId":"r","type":"read_events","payload":{"threadId":"` + id + `","afterSeq":` + uitoa(after) + `}}`)
		line := p.line()
		if len(line) > MaxOutLineBytes {
			t.Fatalf("a line of %d bytes", len(line))
		}
		var answer struct {
			Result EventList `json:"result"`
		}
		decode(t, line, &answer)
		for _, ev := range answer.Result.Events {
			if ev.Seq != after+1 {
				t.Fatalf("event %d after %d", ev.Seq, after)
			}
			after = ev.Seq
		}
		if answer.Result.NextSeq != after {
			t.Fatalf("nextSeq %d after %d", answer.Result.NextSeq, after)
		}
	}
}

func TestAnAnswerThatWouldBeTooLargeIsAnError(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Drain = 50 * time.Millisecond })
	id := r.createThread(t)
	r.threads.snapshot = func(s *thread.Snapshot) { s.ActiveMessage = strings.Repeat("x", MaxOutLineBytes) }
	p := r.dial(t)
	p.send(subscribe("s", id))
	line := p.line()
	hasAll(t, line, `{"requestId":"s","ok":false`, "MESSAGE_TOO_LARGE")
	p.ended()
	if n := r.threads.feedCount(id); n != 0 {
		t.Fatalf("%d feeds are open", n)
	}
}
