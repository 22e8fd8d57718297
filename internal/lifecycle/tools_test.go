package lifecycle

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// painting makes a thread with one tool, in a running turn.
func (b *bench) painting() (id string, c *memConversation) {
	b.Helper()
	id, err := b.Create(b.Context(), anyone, thread.CreateRequest{Provider: thread.OpenCode, Skills: &tool.Skills{
		Tools: []tool.Tool{{Name: "paint", Description: "Paints.", ArgsSchema: jsontext.Value(`{"type":"object","properties":{"color":{"type":"string"}}}`)}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.send(id, "op", "x")
	return id, b.conversation()
}

// answer is what a tool call came to.
type answer struct {
	value jsontext.Value
	err   error
}

func (b *bench) call(id, callID, args string, d thread.Delivery) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		v, err := b.CallTool(b.Context(), thread.ToolRequest{ThreadID: id, CallID: callID, Name: "paint", Args: jsontext.Value(args), Delivery: d})
		done <- answer{v, err}
	}()
	synctest.Wait()
	return done
}

func (b *bench) pending(id string) *thread.PendingTool {
	b.Helper()
	p := b.snapshot(id).PendingTool
	if p == nil {
		b.Fatal("no tool request is out")
	}
	return p
}

func (b *bench) submit(id, requestID, result string) {
	b.Helper()
	if err := b.SubmitToolResult(b.Context(), anyone, id, requestID, jsontext.Value(result)); err != nil {
		b.Fatalf("submit: %v", err)
	}
	synctest.Wait()
}

func (a answer) want(t *testing.T, value string) {
	t.Helper()
	if a.err != nil || string(a.value) != value {
		t.Fatalf("answer = %s, %v; want %s", a.value, a.err, value)
	}
}

func TestAToolCallGoesToThePageAndBack(t *testing.T) {
	start(t, func(b *bench) {
		id, c := b.painting()
		w := b.watch(id)
		first := b.call(id, "", `{"color":"red"}`, nil)
		joined := b.call(id, "", ` { "color" : "red" } `, nil)
		p := b.pending(id)
		if string(p.Args) != `{"color":"red"}` || p.Timeout != time.Minute {
			t.Fatalf("pending = %+v", p)
		}
		b.submit(id, p.RequestID, `{"done":true}`)
		(<-first).want(t, `{"done":true}`)
		(<-joined).want(t, `{"done":true}`)
		c.says(finished(thread.OutcomeSuccess))
		w.expect("status_changed waitingToolResult (op)", "tool_call (op)", "status_changed running (op)", "tool_result (op)",
			"status_changed idle (op)", "operation_completed (op) true")
		b.submit(id, p.RequestID, `{"done":true}`) // the same once more
		err := b.SubmitToolResult(b.Context(), anyone, id, p.RequestID, jsontext.Value("2"))
		wantCode(t, err, fault.PendingToolRequestNotFound)
	})
}

func TestTwentyParallelCallsGoOutOneByOne(t *testing.T) {
	start(t, func(b *bench) {
		id, _ := b.painting()
		calls := make([]<-chan answer, 20)
		for i := range calls {
			calls[i] = b.call(id, fmt.Sprint("call", i), `{}`, nil)
		}
		for i := range 17 {
			p := b.pending(id)
			b.submit(id, p.RequestID, fmt.Sprint(i))
		}
		for i, c := range calls {
			if i < 17 {
				(<-c).want(t, fmt.Sprint(i))
				continue
			}
			wantCode(t, (<-c).err, fault.PendingToolRequestExists)
		}
	})
}

func TestAToolCallTimesOutAndTheTurnGoesOn(t *testing.T) {
	start(t, func(b *bench) {
		id, c := b.painting()
		call := b.call(id, "", `{"timeoutMs":1500}`, nil)
		p := b.pending(id)
		time.Sleep(1500 * time.Millisecond)
		wantCode(t, (<-call).err, fault.ToolTimeout)
		err := b.SubmitToolResult(b.Context(), anyone, id, p.RequestID, jsontext.Value("1"))
		wantCode(t, err, fault.PendingToolRequestNotFound)
		c.says(finished(thread.OutcomeSuccess))
		synctest.Wait()
		if s := b.snapshot(id); s.Status != thread.Idle {
			t.Fatalf("status = %v", s.Status)
		}
	})
}

type delivered struct{ atomic.Bool }

func (d *delivered) Delivered() bool { return d.Load() }

func TestAnAnswerThatDidNotArriveIsGivenAgain(t *testing.T) {
	start(t, func(b *bench) {
		id, _ := b.painting()
		var lost delivered
		first := b.call(id, "", `{}`, &lost)
		b.submit(id, b.pending(id).RequestID, "1")
		(<-first).want(t, "1")

		var read delivered
		again := b.call(id, "", `{}`, &read)
		(<-again).want(t, "1")
		read.Store(true)

		b.call(id, "", `{}`, nil)
		b.pending(id) // a call of its own: the answer had arrived
	})
}

func TestWaitersLearnWhyTheirTurnIsOver(t *testing.T) {
	tests := []struct {
		name string
		end  func(b *bench, id string, c *memConversation)
		code fault.Code
	}{
		{"success", func(_ *bench, _ string, c *memConversation) { c.says(finished(thread.OutcomeSuccess)) }, fault.ToolCancelled},
		{"failure", func(_ *bench, _ string, c *memConversation) {
			c.sink.Frame(thread.Frame{Kind: thread.FrameGone, Err: fault.New(fault.ProviderRuntimeDisconnected, "gone")})
		}, fault.ProviderRuntimeDisconnected},
		{"cancel", func(b *bench, id string, _ *memConversation) { _, _ = b.Cancel(b.Context(), anyone, id, nil) }, fault.OperationCancelled},
		{"end", func(b *bench, id string, _ *memConversation) { _ = b.End(b.Context(), anyone, id) }, fault.ThreadEnded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start(t, func(b *bench) {
				id, c := b.painting()
				out, queued := b.call(id, "a", `{}`, nil), b.call(id, "b", `{}`, nil)
				begin := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() { tt.end(b, id, c) })
				wantCode(t, (<-out).err, tt.code)
				wantCode(t, (<-queued).err, tt.code)
				if time.Since(begin) != 0 {
					t.Fatal("the waiters had to wait")
				}
				wg.Wait()
				if b.snapshot(id).PendingTool != nil {
					t.Fatal("the request is still out")
				}
			})
		})
	}
}

func TestAToolCallIsRefusedByStatusBeforeItsArgumentsAreLookedAt(t *testing.T) {
	start(t, func(b *bench) {
		id, c := b.painting()
		wantCode(t, (<-b.call(id, "", `{"color":1}`, nil)).err, fault.ToolArgsInvalid)
		c.says(finished(thread.OutcomeSuccess))
		synctest.Wait()
		wantCode(t, (<-b.call(id, "", `{"color":1}`, nil)).err, fault.ThreadBusy)
		if err := b.End(b.Context(), anyone, id); err != nil {
			t.Fatal(err)
		}
		wantCode(t, (<-b.call(id, "", `{}`, nil)).err, fault.ThreadEnded)
		wantCode(t, (<-b.call("unknown", "", `{}`, nil)).err, fault.ThreadNotFound)
		_, err := b.ToolSpec(b.Context(), "unknown", "paint")
		wantCode(t, err, fault.ToolsManifestInvalid)
		_, err = b.ToolSpec(b.Context(), id, "paint")
		wantCode(t, err, fault.ToolsManifestInvalid)
	})
}

func TestANativeCallIsAnsweredThroughItsRuntime(t *testing.T) {
	start(t, func(b *bench) {
		id, c := b.painting()
		c.says(thread.Frame{Kind: thread.FrameToolCall, Call: thread.ToolCall{CallID: "n1", Name: "paint", Args: jsontext.Value(`{"color":1}`)}})
		c.says(thread.Frame{Kind: thread.FrameToolCall, Call: thread.ToolCall{CallID: "n2", Name: "paint", Args: jsontext.Value(`{"color":"red"}`)}})
		synctest.Wait()
		b.submit(id, b.pending(id).RequestID, `"ok"`)
		c.mu.Lock()
		defer c.mu.Unlock()
		if got := strings.Join(c.answers, "; "); got != "n1 TOOL_ARGS_INVALID; n2 \"ok\"" {
			t.Fatalf("answers = %s", got)
		}
	})
}

func TestAResultThatCannotBeStoredLeavesTheRequestOut(t *testing.T) {
	start(t, func(b *bench) {
		id, _ := b.painting()
		call := b.call(id, "", `{}`, nil)
		p := b.pending(id)
		b.store.setFail(errDisk)
		err := b.SubmitToolResult(b.Context(), anyone, id, p.RequestID, jsontext.Value("1"))
		wantCode(t, err, fault.StorageFull)
		synctest.Wait()
		select {
		case a := <-call:
			t.Fatalf("the waiter was answered: %s, %v", a.value, a.err)
		default:
		}
		b.store.setFail(nil)
		b.submit(id, p.RequestID, "2")
		(<-call).want(t, "2")
	})
}

func TestAResultThatWasStoredInSpiteOfAnErrorReachesItsWaiter(t *testing.T) {
	start(t, func(b *bench) {
		id, _ := b.painting()
		call := b.call(id, "", `{}`, nil)
		p := b.pending(id)
		b.store.setLie(errUndecided)
		err := b.SubmitToolResult(b.Context(), anyone, id, p.RequestID, jsontext.Value("1"))
		wantCode(t, err, fault.StorageFailed)
		time.Sleep(DefaultDurations.Retry)
		(<-call).want(t, "1")
	})
}
