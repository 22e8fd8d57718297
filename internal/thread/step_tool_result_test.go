package thread

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestSubmitsThatNobodyWaitsFor(t *testing.T) {
	const notFound, done = "9 PENDING_TOOL_REQUEST_NOT_FOUND", "9 done"
	answered := func(sc *scene) *scene { return sc.running().step(call(7, "r1", `{}`), submit(8, "r1", `{"a":1}`)) }
	later := func(d time.Duration) func(*scene) *scene {
		return func(sc *scene) *scene {
			answered(sc).now = sc.now.Add(d - time.Second)
			return sc
		}
	}
	tests := []struct {
		name string
		from func(*scene) *scene
		in   Input
		want string
	}{
		{"unknown while nothing runs", (*scene).talked, submit(9, "r1", "1"), notFound},
		{"unknown while another is out", (*scene).calling, submit(9, "r9", "1"), notFound},
		{"without an id", (*scene).calling, submit(9, "", "1"), notFound},
		{"for a call that waits its turn", func(sc *scene) *scene { return sc.calling().step(call(7, "r2", `{}`)) }, submit(9, "r2", "1"), notFound},
		{"after the timeout", func(sc *scene) *scene { return sc.calling().step(fired(TimerTool, 1)) }, submit(9, "r1", "1"), notFound},
		{"after the turn", func(sc *scene) *scene { return sc.calling().step(finished(1, OutcomeSuccess)) }, submit(9, "r1", "1"), notFound},
		{"after a cancel", func(sc *scene) *scene { return sc.calling().step(Cancel{}) }, submit(9, "r1", "1"), notFound},
		{"after the end", func(sc *scene) *scene { return sc.calling().step(End{}) }, submit(9, "r1", "1"), notFound},
		{"the same again", answered, submit(9, "r1", `{"a":1}`), done},
		{"something else", answered, submit(9, "r1", `{"a":2}`), notFound},
		{"the same for another request", answered, submit(9, "r2", `{"a":1}`), notFound},
		{"the same at the end of its time", later(resubmitWindow), submit(9, "r1", `{"a":1}`), done},
		{"the same after its time", later(resubmitWindow + 1), submit(9, "r1", `{"a":1}`), notFound},
		{"the same after the turn", func(sc *scene) *scene { return answered(sc).step(finished(1, OutcomeSuccess)) }, submit(9, "r1", `{"a":1}`), done},
		{"the same after the end", func(sc *scene) *scene { return answered(sc).step(End{}, finished(1, OutcomeCancelled)) }, submit(9, "r1", `{"a":1}`), done},
		{"the same while another is out", func(sc *scene) *scene { return answered(sc).step(call(7, "r2", `2`)) }, submit(9, "r1", `{"a":1}`), done},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := tt.from(newScene(t)).forget()
			before := sc.s
			sc.step(tt.in).wantReplies(tt.want).wantEvents().wantEffects()
			if diff := cmp.Diff(before, sc.s, everything); diff != "" {
				t.Errorf("the state changed:\n%s", diff)
			}
			want := map[string]any{"threadId": "t1", "requestId": tt.in.(SubmitToolResult).RequestID}
			if err := sc.last.Replies[0].Err; err != nil && !cmp.Equal(want, err.Details) {
				t.Errorf("details %v, want %v", err.Details, want)
			}
		})
	}
}

func TestSizesOfResults(t *testing.T) {
	text := func(size int) string { return `"` + strings.Repeat("x", size-2) + `"` }
	tests := []struct {
		name   string
		size   int
		told   bool // the event carries it
		passes bool
	}{
		{"as long as is told", maxToldResult, true, true},
		{"longer than is told", maxToldResult + 1, false, true},
		{"as long as is taken", MaxToolResult, false, true},
		{"too long", MaxToolResult + 1, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := newScene(t).running().step(call(7, "r1", `{}`), call(8, "r2", `{}`), call(9, "r3", `3`)).forget()
			result := text(tt.size)
			sc.step(submit(10, "r1", result)).wantStatus(WaitingToolResult) // the next call
			next := []string{"status_changed waitingToolResult op=op +", "tool_call r3 paint 3 op=op"}
			if !tt.passes {
				sc.wantReplies("7 TOOL_RESULT_TOO_LARGE", "8 TOOL_RESULT_TOO_LARGE", "10 TOOL_RESULT_TOO_LARGE")
				sc.wantEvents(numbered(7, append([]string{"status_changed running op=op"}, next...)...)...)
				sc.forget().step(submit(10, "r1", result)).wantReplies("10 PENDING_TOOL_REQUEST_NOT_FOUND")
				return
			}
			told := result
			if !tt.told {
				told = " truncated"
			}
			sc.wantReplies("7 "+result, "8 "+result, "10 done")
			sc.wantEvents(numbered(7, append([]string{"status_changed running op=op +", fmt.Sprintf("tool_result r1 paint %s op=op", told)}, next...)...)...)
			sc.forget().step(submit(10, "r1", result)).wantReplies("10 done").wantEvents()
		})
	}
}

func TestNativeCallsAreAnsweredThroughTheRuntime(t *testing.T) {
	tests := []struct {
		name string
		in   Input
		want string
	}{
		{"with the result", submit(8, "r1", `{"a":1}`), `answer-tool turn=1 c1 {"a":1}`},
		{"with the timeout", fired(TimerTool, 1), "answer-tool turn=1 c1 TOOL_TIMEOUT"},
		{"that the result is too large", submit(8, "r1", strings.Repeat("1", MaxToolResult+1)), "answer-tool turn=1 c1 TOOL_RESULT_TOO_LARGE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := newScene(t).calling()
			sc.step(nativeCall("r2", "c1", `{}`)).wantEvents().wantEffects() // the same call again joins
			sc.step(tt.in).wantEffects("disarm tool", tt.want, "arm silence turn=1").wantStatus(Running)
			sc.forget().step(submit(9, "r1", `{"b":1}`), fired(TimerTool, 1)).wantEffects() // no second answer
		})
	}
}

// Nobody can tell whether a runtime has read its answer, so the same call id is
// the same call.
func TestANativeCallThatComesAgainGetsItsAnswerAgain(t *testing.T) {
	sc := newScene(t).calling().step(submit(8, "r1", `"a"`), Delivered{}).forget()
	for range 3 {
		sc.step(nativeCall("r2", "c1", `{}`)).wantEffects(`answer-tool turn=1 c1 "a"`).wantEvents().wantStatus(Running).forget()
	}
	sc.step(nativeCall("r3", "c2", `{}`)).wantStatus(WaitingToolResult)
}

func TestParallelNativeCallsStayApart(t *testing.T) {
	sc := newScene(t).running().step(nativeCall("r1", "c1", `{}`), nativeCall("r2", "c2", `{}`), call(7, "r3", `{}`)).forget()
	sc.step(submit(8, "r1", `"a"`), submit(8, "r2", `"b"`), submit(8, "r3", `"c"`)).wantReplies("8 done", "8 done", `7 "c"`, "8 done")
	var answers []string
	for _, e := range sc.effects {
		if strings.HasPrefix(e, "answer-tool") {
			answers = append(answers, e)
		}
	}
	sc.same("answers", []string{`answer-tool turn=1 c1 "a"`, `answer-tool turn=1 c2 "b"`}, answers)
}

// What ends a turn answers the calls that wait with its reason, once, and leaves
// nothing of them.
func TestWhatEndsATurnAnswersItsCalls(t *testing.T) {
	rejected := fault.New(fault.ProviderRequestFailed, "No.")
	overloaded := fault.New(fault.Overloaded, "Too much.")
	tests := []struct {
		name   string
		thread func(*Record)
		in     Input
		code   fault.Code
		status Status // after the input
		events []string
		after  Status // once the provider has confirmed
	}{
		{"success", nil, finished(1, OutcomeSuccess), fault.ToolCancelled, Idle, []string{"status_changed idle op=op +", "operation_completed user true op=op"}, Idle},
		{"failure", nil, failed(1, rejected), fault.ProviderRequestFailed, Failed,
			[]string{"error opencode PROVIDER_REQUEST_FAILED op=op +", "status_changed error op=op +", "operation_completed user false PROVIDER_REQUEST_FAILED op=op"}, Failed},
		{"the agent gave up", nil, finished(1, OutcomeCancelled), fault.ProviderRequestFailed, Failed,
			[]string{"error opencode PROVIDER_REQUEST_FAILED op=op +", "status_changed error op=op +", "operation_completed user false PROVIDER_REQUEST_FAILED op=op"}, Failed},
		{"the runtime is gone", nil, gone(), fault.ProviderRuntimeDisconnected, Failed,
			[]string{"error opencode PROVIDER_RUNTIME_DISCONNECTED op=op +", "status_changed error op=op +", "operation_completed user false PROVIDER_RUNTIME_DISCONNECTED op=op"}, Failed},
		{"cancel", nil, Cancel{}, fault.OperationCancelled, Running, []string{"status_changed running op=op"}, Idle},
		{"end", nil, End{}, fault.ThreadEnded, Stopping, []string{"status_changed stopping"}, Ended},
		{"the last subscriber is gone", autoEnd, fired(TimerAutoEnd, 0), fault.ThreadEnded, Stopping, []string{"status_changed stopping"}, Ended},
		{"doom", nil, Doom{Turn: 1, Err: overloaded}, fault.Overloaded, Running, []string{"status_changed running op=op"}, Failed},
		{"shutdown", nil, Shutdown{}, fault.OperationInterrupted, Idle, []string{"operation_completed user false OPERATION_INTERRUPTED op=op +", "status_changed idle"}, Idle},
		{"shutdown of a managed workspace", managed, Shutdown{}, fault.OperationInterrupted, Ended,
			[]string{"operation_completed user false OPERATION_INTERRUPTED op=op +", "status_changed idle", "ended +", "status_changed ended"}, Ended},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.thread == nil {
				tt.thread = func(*Record) {}
			}
			sc := newScene(t, tt.thread).running().step(
				call(7, "r1", `1`), call(8, "r1", `1`), nativeCall("r2", "c2", `2`), call(9, "r3", `3`), call(10, "r3", `3`), nativeCall("r4", "c4", `4`),
			).forget()
			sc.step(tt.in).wantEvents(numbered(7, tt.events...)...).wantStatus(tt.status)
			var want []string
			for _, caller := range []int{7, 8, 9, 10} {
				want = append(want, fmt.Sprintf("%d %s", caller, tt.code))
			}
			sc.wantReplies(want...)
			sc.sees(fmt.Sprintf("answer-tool turn=1 c2 %s", tt.code), fmt.Sprintf("answer-tool turn=1 c4 %s", tt.code), "disarm tool")
			if got := sc.s.Snapshot().PendingTool; got != nil {
				t.Errorf("the snapshot shows %+v", got)
			}
			sc.forget().step(fired(TimerTool, 1), finished(1, OutcomeCancelled), fired(TimerStop, 1), Shutdown{}).wantReplies().wantStatus(tt.after)
			for _, e := range sc.effects {
				if strings.HasPrefix(e, "answer-tool") {
					t.Errorf("a second answer: %s", e)
				}
			}
		})
	}
}

// sees checks that each effect was asked for exactly once.
func (sc *scene) sees(want ...string) {
	sc.t.Helper()
	for _, w := range want {
		n := 0
		for _, e := range sc.effects {
			if e == w {
				n++
			}
		}
		if n != 1 {
			sc.t.Errorf("%q was asked for %d times, of %q", w, n, sc.effects)
		}
	}
}

// A provider that waits for a tool could not confirm its interruption.
func TestCallsAreAnsweredBeforeTheAgentIsInterrupted(t *testing.T) {
	for name, in := range map[string]Input{"cancel": Cancel{}, "end": End{}, "doom": Doom{Turn: 1}} {
		t.Run(name, func(t *testing.T) {
			sc := newScene(t).calling().step(in)
			if len(sc.last.Effects) < 3 || sc.last.Effects[1].Kind != EffectAnswerTool || sc.last.Effects[2].Kind != EffectCancelTurn {
				t.Errorf("effects %q", sc.effects)
			}
		})
	}
}

func TestCallsBeforeTheTextIsHandedOverAreClosedToo(t *testing.T) {
	tests := []struct {
		name string
		in   Input
		want []string
	}{
		{"cancel", Cancel{Caller: 8}, []string{"7 OPERATION_CANCELLED", `8 cancelled=true "op"`}},
		{"end", End{Caller: 8}, []string{"7 THREAD_ENDED", "8 done"}},
		{"doom", Doom{Turn: 1, Err: fault.New(fault.Overloaded, "Too much.")}, []string{"7 OVERLOADED"}},
		{"no session in time", fired(TimerStart, 1), []string{"7 PROVIDER_TIMEOUT"}},
		{"no session", Attached{Turn: 1, Err: fault.New(fault.ProviderAuthRequired, "Log in.")}, []string{"7 PROVIDER_AUTH_REQUIRED"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			newScene(t).attaching().step(call(7, "r1", `{}`)).forget().step(tt.in).wantReplies(tt.want...)
		})
	}
	newScene(t).attaching().step(call(7, "r1", `{}`), fresh(1, "s1"), Started{Turn: 1}).forget().
		step(submit(8, "r1", "1")).wantReplies("7 1", "8 done").wantEffects(cameBack...).wantStatus(Running)
}

func TestACrashLosesTheRequestAndSaysSo(t *testing.T) {
	old := newScene(t).running().step(call(7, "r1", `{}`), call(8, "r2", `2`))
	sc := old.reloaded().wantStatus(Running)
	if got := sc.s.Snapshot().PendingTool; got != nil {
		t.Errorf("the crashed state shows %+v", got)
	}
	from := sc.s.LatestSeq + 1
	settle(sc).wantEvents(numbered(from, "operation_completed user false OPERATION_INTERRUPTED op=op +", "status_changed idle")...).wantEffects()
	sc.step(submit(9, "r1", "1")).wantReplies("9 PENDING_TOOL_REQUEST_NOT_FOUND")
}

func TestRefusedToolInputs(t *testing.T) {
	sc := newScene(t).running().step(call(6, "r1", `{}`))
	tests := []struct {
		name string
		in   Input
		keep bool
	}{
		{"a call is its caller's to try again", call(7, "r2", `2`), false},
		{"a native call is kept, since its runtime waits", nativeCall("r2", "c2", `2`), true},
		{"a result is the page's to submit again", submit(7, "r1", "1"), false},
		{"a result that nobody brought is kept", submit(0, "r1", "1"), true},
		{"a timeout is kept", fired(TimerTool, 1), true},
		{"a delivery is kept", Delivered{Waiter: 6}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next, keep := Refuse(sc.s, tt.in)
			if keep != tt.keep {
				t.Errorf("kept: %t, want %t", keep, tt.keep)
			}
			if diff := cmp.Diff(sc.s, next, everything); diff != "" {
				t.Errorf("the state changed:\n%s", diff)
			}
		})
	}
}

// A result that could not be stored has not happened: the request stays out and
// takes the next one.
func TestAResultThatCouldNotBeStoredCanBeSubmittedAgain(t *testing.T) {
	sc := newScene(t).running().step(call(7, "r1", `{}`)).forget()
	var lost Output
	Step(sc.s, submit(8, "r1", `"a"`), sc.now, &lost)
	sc.s, _ = Refuse(sc.s, submit(8, "r1", `"a"`))
	sc.step(submit(9, "r1", `"b"`)).wantReplies(`7 "b"`, "9 done").
		wantEvents("7 status_changed running op=op +", `8 tool_result r1 paint "b" op=op`)
}

func TestWhatIsRememberedOfCallsIsBounded(t *testing.T) {
	sc := newScene(t).running()
	const calls = 3 * maxAnsweredKept
	for i := range calls {
		request := fmt.Sprintf("r%d", i)
		sc.now = sc.now.Add(-2 * time.Second) // all at the same moment, so that nothing is too old
		sc.step(call(7, request, fmt.Sprint(i)), submit(8, request, fmt.Sprint(i)))
	}
	if f, a := len(sc.s.turn.tools.finished), len(sc.s.answered); f != maxFinishedToKeep || a != maxAnsweredKept {
		t.Errorf("%d finished calls and %d answered requests, want %d and %d", f, a, maxFinishedToKeep, maxAnsweredKept)
	}
	last, first := fmt.Sprint(calls-1), fmt.Sprint(calls-maxAnsweredKept)
	sc.forget().step(submit(9, "r"+last, last), submit(9, "r"+first, first), submit(9, "r0", "0")).
		wantReplies("9 done", "9 done", "9 PENDING_TOOL_REQUEST_NOT_FOUND")
	sc.forget().step(call(9, "again", last), call(9, "again", first)).wantReplies("9 "+last, "9 "+first)

	sc.now = sc.now.Add(resubmitWindow)
	sc.step(call(7, "new", `"new"`), submit(8, "new", "1"))
	if f, a := len(sc.s.turn.tools.finished), len(sc.s.answered); f != 1 || a != 1 {
		t.Errorf("%d finished calls and %d answered requests are left, want 1 of each", f, a)
	}
}
