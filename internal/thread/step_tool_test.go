package thread

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// sentOut are the effects of a request that goes out with this ordinal.
func sentOut(ordinal int) []string {
	return []string{fmt.Sprintf("arm tool turn=%d 1m0s", ordinal), "disarm silence"}
}

// cameBack are the effects of a request that is closed in the middle of a turn.
var cameBack = []string{"disarm tool", "arm silence turn=1"}

func TestEachStateAnswersToolCallsAsDocumented(t *testing.T) {
	overloaded := fault.New(fault.Overloaded, "Too much.")
	tests := []struct {
		name string
		from func(*scene) *scene
		want string // "" = taken
	}{
		{"idle", func(sc *scene) *scene { return sc }, "7 THREAD_BUSY"},
		{"after a turn", (*scene).talked, "7 THREAD_BUSY"},
		{"attaching", (*scene).attaching, ""},
		{"starting", (*scene).starting, ""},
		{"running", (*scene).running, ""},
		{"waitingToolResult", (*scene).calling, ""},
		{"preparing", (*scene).preparing, "7 PROVIDER_PROTOCOL_ERROR"},
		{"preparing and stopping", func(sc *scene) *scene { return sc.preparing().step(End{}) }, "7 THREAD_BUSY"},
		{"cancelling", func(sc *scene) *scene { return sc.cancelling(0) }, "7 OPERATION_CANCELLED"},
		{"doomed", func(sc *scene) *scene { return sc.running().step(Doom{Turn: 1, Err: overloaded}) }, "7 OVERLOADED"},
		{"stopping", func(sc *scene) *scene { return sc.stopping(0) }, "7 THREAD_BUSY"},
		{"ended", (*scene).ended, "7 THREAD_ENDED"},
		{"error", (*scene).failed, "7 THREAD_BUSY"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := tt.from(newScene(t)).forget()
			before := sc.s
			if refused := sc.s.CheckToolCall() != nil; refused != (tt.want != "") {
				t.Errorf("the check before the call says refused %t", refused)
			}
			sc.step(call(7, "r7", `{}`))
			if tt.want == "" {
				sc.wantReplies()
				return
			}
			sc.wantReplies(tt.want).wantEvents().wantEffects()
			if diff := cmp.Diff(before, sc.s, everything); diff != "" {
				t.Errorf("the refused call changed the state:\n%s", diff)
			}
			if err := sc.last.Replies[0].Err; err != overloaded && err.Details["threadId"] != "t1" {
				t.Errorf("refusal without threadId: %v", err.Details)
			}
			sc.step(nativeCall("r8", "c8", `{}`))
			code := strings.TrimPrefix(tt.want, "7 ")
			if e := sc.last.Effects; len(e) != 1 || e[0].CallID != "c8" || string(e[0].Answer.Error.Code) != code {
				t.Errorf("a native call is answered with %+v, want %s", e, code)
			}
		})
	}
}

func TestACallIsToldAndItsResultReachesTheCaller(t *testing.T) {
	sc := newScene(t).running().step(call(7, "r1", `{"color":"red"}`)).
		wantEvents("5 status_changed waitingToolResult op=op +", `6 tool_call r1 paint {"color":"red"} op=op`).
		wantEffects(sentOut(1)...).wantReplies().wantStatus(WaitingToolResult)
	if !sc.last.Durable {
		t.Error("a call is told before it is stored")
	}
	sc.forget().step(submit(8, "r1", `{"ok":true}`)).
		wantEvents("7 status_changed running op=op +", `8 tool_result r1 paint {"ok":true} op=op`).
		wantEffects(cameBack...).wantReplies(`7 {"ok":true}`, "8 done").wantStatus(Running)
	if !sc.last.Durable {
		t.Error("a result is answered before it is stored")
	}
	sc.forget().step(finished(1, OutcomeSuccess)).wantStatus(Idle).wantReplies()
}

func TestResultsPassThroughAsTheyAre(t *testing.T) {
	for _, result := range []string{"null", "0", `""`, `[]`, `{"error":{"code":"NO","message":"No."}}`} {
		newScene(t).running().step(call(7, "r1", `{}`), submit(8, "r1", result)).
			wantReplies("7 "+result, "8 done").
			wantEvents("5 status_changed waitingToolResult op=op +", "6 tool_call r1 paint {} op=op",
				"7 status_changed running op=op +", fmt.Sprintf("8 tool_result r1 paint %s op=op", result))
	}
}

func TestASnapshotShowsTheRequestThatIsOut(t *testing.T) {
	sc := newScene(t).running().step(call(7, "r1", `{"a":1}`), call(8, "r2", `{"a":2}`))
	asked := sc.now.Add(-time.Second)
	want := &PendingTool{RequestID: "r1", OperationID: "op", ToolName: "paint", Args: jsontext.Value(`{"a":1}`), CreatedAt: asked, Timeout: time.Minute}
	if diff := cmp.Diff(want, sc.s.Snapshot().PendingTool); diff != "" {
		t.Errorf("pending request (-want +got):\n%s", diff)
	}
	sc.step(submit(9, "r1", "1"))
	want = &PendingTool{RequestID: "r2", OperationID: "op", ToolName: "paint", Args: jsontext.Value(`{"a":2}`), CreatedAt: sc.now, Timeout: time.Minute}
	if diff := cmp.Diff(want, sc.s.Snapshot().PendingTool); diff != "" {
		t.Errorf("pending request after the first (-want +got):\n%s", diff)
	}
	sc.step(submit(9, "r2", "1"))
	if got := sc.s.Snapshot().PendingTool; got != nil {
		t.Errorf("nothing is out, the snapshot shows %+v", got)
	}
}

func TestEqualCallsWithoutACallIDJoin(t *testing.T) {
	sc := newScene(t).running().step(call(7, "r1", `{}`)).forget()
	sc.step(call(8, "r2", `{}`), call(9, "r3", `{}`)).wantEvents().wantEffects().wantReplies()
	if sc.last.Durable {
		t.Error("a join is stored")
	}
	sc.step(submit(10, "r1", "1")).wantReplies("7 1", "8 1", "9 1", "10 done").
		wantEvents("7 status_changed running op=op +", "8 tool_result r1 paint 1 op=op").wantStatus(Running)
}

func TestACallJoinsOneThatWaitsItsTurn(t *testing.T) {
	sc := newScene(t).running().step(call(7, "r1", `1`), call(8, "r2", `2`), call(9, "r3", `2`), submit(10, "r1", `"a"`)).forget()
	sc.step(submit(10, "r2", `"b"`)).wantReplies(`8 "b"`, `9 "b"`, "10 done").wantStatus(Running)
}

func TestJoinedCallersShareTheDeadline(t *testing.T) {
	newScene(t).running().step(call(7, "r1", `{}`), call(8, "r2", `{}`), fired(TimerTool, 1)).
		wantReplies("7 TOOL_TIMEOUT", "8 TOOL_TIMEOUT").
		wantEvents("5 status_changed waitingToolResult op=op +", "6 tool_call r1 paint {} op=op", "7 status_changed running op=op").
		wantEffects(append(sentOut(1), cameBack...)...)
}

func TestCallIDsTellCallsApart(t *testing.T) {
	base := callWithID(7, "r1", "c1", `{}`)
	other := callWithID(8, "r2", "c1", `{}`)
	other.Name = "erase"
	tests := []struct {
		name  string
		first CallTool
		again CallTool
		joins bool
	}{
		{"the same id again is the same call", base, callWithID(8, "r2", "c1", `{}`), true},
		{"equal arguments with another id are not", base, callWithID(8, "r2", "c2", `{}`), false},
		{"equal arguments without an id are not", base, call(8, "r2", `{}`), false},
		{"nor with an id behind one without", call(7, "r1", `{}`), callWithID(8, "r2", "c1", `{}`), false},
		{"nor the same id of another tool", base, other, false},
		{"equal arguments without ids are the same call", call(7, "r1", `{}`), call(8, "r2", `{}`), true},
		{"other arguments are not", call(7, "r1", `{}`), call(8, "r2", `{"a":1}`), false},
	}
	for _, tt := range tests {
		t.Run(tt.name+" while it is out", func(t *testing.T) {
			sc := newScene(t).running().step(tt.first, tt.again, submit(9, "r1", `"a"`))
			if tt.joins {
				sc.wantReplies(`7 "a"`, `8 "a"`, "9 done").wantStatus(Running)
				return
			}
			sc.wantReplies(`7 "a"`, "9 done").wantStatus(WaitingToolResult)
			sc.forget().step(submit(9, "r2", `"b"`)).wantReplies(`8 "b"`, "9 done").wantStatus(Running)
		})
		t.Run(tt.name+" while it waits", func(t *testing.T) {
			sc := newScene(t).running().step(nativeCall("r0", "c0", `{}`), tt.first, tt.again)
			if want := map[bool]int{true: 1, false: 2}[tt.joins]; len(sc.s.turn.tools.queue) != want {
				t.Errorf("%d calls wait, want %d", len(sc.s.turn.tools.queue), want)
			}
		})
		t.Run(tt.name+" when it is over", func(t *testing.T) {
			first := tt.first
			first.RequestID = "r0"
			sc := newScene(t).running().step(first, submit(9, "r0", `"a"`)).forget().step(tt.again)
			if tt.joins {
				sc.wantReplies(`8 "a"`).wantEvents().wantStatus(Running)
				return
			}
			sc.wantReplies().wantStatus(WaitingToolResult)
		})
	}
}

func TestReplays(t *testing.T) {
	// over has a call of 7 and 8 that got its answer.
	over := func(sc *scene) *scene {
		return sc.running().step(call(7, "r1", `{}`), call(8, "r2", `{}`), submit(9, "r1", `"a"`)).forget()
	}
	later := func(d time.Duration) func(*scene) *scene {
		return func(sc *scene) *scene {
			over(sc).now = sc.now.Add(d - time.Second) // a step takes one more
			return sc
		}
	}
	const replayed, anew = `10 "a"`, ""
	tests := []struct {
		name string
		from func(*scene) *scene
		ins  []Input
		want string
	}{
		{"at once", over, nil, replayed},
		{"at the end of its time", later(replayWindow), nil, replayed},
		{"after its time", later(replayWindow + 1), nil, anew},
		{"one of two has it for certain", over, []Input{Delivered{Waiter: 7}}, replayed},
		{"the other has it for certain", over, []Input{Delivered{Waiter: 8}}, replayed},
		{"all have it for certain", over, []Input{Delivered{Waiter: 8}, Delivered{Waiter: 7}}, anew},
		{"somebody else has something", over, []Input{Delivered{Waiter: 9}, Delivered{Waiter: 99}, Delivered{}}, replayed},
		{"the same delivery told twice", over, []Input{Delivered{Waiter: 7}, Delivered{Waiter: 7}}, replayed},
		{"in another operation", over, []Input{finished(1, OutcomeSuccess), send(1, "op2", "x"), Attached{Turn: 2, SessionID: "s1"}, Started{Turn: 2}}, anew},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := tt.from(newScene(t)).step(tt.ins...).forget().step(call(10, "r10", `{}`))
			if tt.want == anew {
				sc.wantReplies().wantStatus(WaitingToolResult)
				return
			}
			sc.wantReplies(tt.want).wantEvents().wantEffects().wantStatus(Running)
			if sc.last.Durable {
				t.Error("a replay is stored")
			}
		})
	}
}

// An answer that may not have arrived is given once more for each waiter who may
// miss it; whoever asks once more after that wants a new run.
func TestAReplayTakesTheWaitersPlace(t *testing.T) {
	sc := newScene(t).running().step(call(7, "r1", `{}`), submit(9, "r1", `"a"`)).forget()
	sc.step(call(10, "r2", `{}`)).wantReplies(`10 "a"`)
	sc.forget().step(Delivered{Waiter: 7}, call(11, "r3", `{}`)).wantReplies(`11 "a"`) // 10 may still miss it
	sc.forget().step(Delivered{Waiter: 11}, call(12, "r4", `{}`)).wantReplies().wantStatus(WaitingToolResult)
}

func TestFailuresAreReplayedToo(t *testing.T) {
	newScene(t).running().step(call(7, "r1", `{}`), fired(TimerTool, 1)).forget().
		step(call(8, "r2", `{}`)).wantReplies("8 TOOL_TIMEOUT").wantEvents().wantStatus(Running)
	newScene(t).running().step(call(7, "r1", `{}`), submit(9, "r1", strings.Repeat("1", MaxToolResult+1))).forget().
		step(call(8, "r2", `{}`)).wantReplies("8 TOOL_RESULT_TOO_LARGE").wantEvents().wantStatus(Running)
}

func TestAReplayDoesNotDisturbTheRequestThatIsOut(t *testing.T) {
	sc := newScene(t).running().step(call(7, "r1", `1`), submit(9, "r1", `"a"`), call(8, "r2", `2`)).forget()
	sc.step(call(10, "r3", `1`)).wantReplies(`10 "a"`).wantEvents().wantEffects().wantStatus(WaitingToolResult)
	sc.forget().step(submit(9, "r2", `"b"`)).wantReplies(`8 "b"`, "9 done")
}

func TestCallsWaitTheirTurn(t *testing.T) {
	sc := newScene(t).running()
	for i := range MaxQueuedCalls + 1 {
		sc.step(call(CallerID(100+i), fmt.Sprintf("r%d", i), fmt.Sprint(i)))
	}
	sc.wantReplies().forget()
	sc.step(call(7, "late", `"late"`)).wantReplies("7 PENDING_TOOL_REQUEST_EXISTS").wantEvents().wantEffects()
	if err := sc.last.Replies[0].Err; err.Details["threadId"] != "t1" {
		t.Errorf("refusal without threadId: %v", err.Details)
	}
	sc.forget().step(nativeCall("late", "c9", `"late"`)).wantEffects("answer-tool turn=1 c9 PENDING_TOOL_REQUEST_EXISTS").wantEvents()
	sc.forget().step(call(8, "r16", "16")).wantReplies().wantEvents() // joins the last one although there is no room
	for i := range MaxQueuedCalls {
		sc.forget().step(submit(9, fmt.Sprintf("r%d", i), "1")).
			wantReplies(fmt.Sprintf("%d 1", 100+i), "9 done").
			wantEffects(append(cameBack[:2:2], sentOut(i+2)...)...)
		if got := sc.s.Snapshot().PendingTool; got.RequestID != fmt.Sprintf("r%d", i+1) || !got.CreatedAt.Equal(sc.now) {
			t.Errorf("behind request %d: %+v at %s", i, got, sc.now)
		}
	}
	sc.forget().step(call(7, "late", `"late"`)).wantReplies() // there is room again
	sc.forget().step(submit(9, "r16", "2")).wantReplies("116 2", "8 2", "9 done").wantStatus(WaitingToolResult)
	sc.forget().step(submit(9, "late", "3")).wantReplies("7 3", "9 done").wantStatus(Running)
}

func TestTheNextCallGoesOutInTheCommitThatClosesTheOneBefore(t *testing.T) {
	newScene(t).running().step(call(7, "r1", `1`), call(8, "r2", `2`)).forget().step(submit(9, "r1", "1")).wantEvents(
		"7 status_changed running op=op +", "8 tool_result r1 paint 1 op=op",
		"9 status_changed waitingToolResult op=op +", "10 tool_call r2 paint 2 op=op",
	)
}

func TestEachCallHasItsOwnTimeout(t *testing.T) {
	slow := call(8, "r2", `2`)
	slow.Timeout = time.Hour
	newScene(t).running().step(call(7, "r1", `1`), slow, fired(TimerTool, 1)).wantEffects(
		"arm tool turn=1 1m0s", "disarm silence", "disarm tool", "arm silence turn=1", "arm tool turn=2 1h0m0s", "disarm silence",
	)
}

func TestATimeoutAnswersTheWaitersAndTheTurnGoesOn(t *testing.T) {
	sc := newScene(t).running().step(call(7, "r1", `1`), call(8, "r1", `1`), call(9, "r2", `2`)).forget()
	sc.step(fired(TimerTool, 1)).wantReplies("7 TOOL_TIMEOUT", "8 TOOL_TIMEOUT").wantEvents(
		"7 status_changed running op=op", "8 status_changed waitingToolResult op=op +", "9 tool_call r2 paint 2 op=op",
	)
	sc.forget().step(submit(10, "r1", "1")).wantReplies("10 PENDING_TOOL_REQUEST_NOT_FOUND").wantEvents()
	sc.forget().step(fired(TimerTool, 2)).wantReplies("9 TOOL_TIMEOUT").wantEvents("10 status_changed running op=op").wantStatus(Running)
	sc.forget().step(delta(1, "so"), message(1, "so it goes"), finished(1, OutcomeSuccess)).wantReplies().wantStatus(Idle)
}

func TestTimersOfOtherRequestsAreNothing(t *testing.T) {
	sc := newScene(t).running().step(call(7, "r1", `1`), submit(9, "r1", "1"), call(8, "r2", `2`)).forget()
	before := sc.s
	sc.step(fired(TimerTool, 1), fired(TimerTool, 0), fired(TimerTool, 3)).wantEvents().wantEffects().wantReplies()
	if diff := cmp.Diff(before, sc.s, everything); diff != "" {
		t.Errorf("the state changed:\n%s", diff)
	}
	sc.step(submit(9, "r2", "1")).forget().step(fired(TimerTool, 2)).wantEvents().wantEffects().wantReplies()
	newScene(t).running().step(fired(TimerTool, 0), fired(TimerTool, 1)).wantEvents().wantEffects()

	// The ordinals go on over turns, so that a timer never meets another turn's request.
	sc = newScene(t).running().step(call(7, "r1", `1`), finished(1, OutcomeSuccess), send(1, "op2", "x"), Attached{Turn: 2, SessionID: "s1"}, Started{Turn: 2})
	sc.step(call(8, "r2", `2`)).forget().step(fired(TimerTool, 1)).wantReplies().wantStatus(WaitingToolResult)
	sc.step(fired(TimerTool, 2)).wantReplies("8 TOOL_TIMEOUT").wantStatus(Running)
}

func TestTheAgentMaySpeakWhileARequestIsOut(t *testing.T) {
	newScene(t).running().step(call(7, "r1", `{}`)).forget().
		step(delta(1, "hm"), message(1, "hm, well"), tokens(5), FrameArrived{Frame{Kind: FrameToolCall, Turn: 1}}).
		wantEvents(`7 assistant_delta "hm" op=op`, `8 assistant_message "hm, well" op=op`, "9 usage_updated 5").
		wantEffects().wantReplies().wantStatus(WaitingToolResult).
		step(submit(8, "r1", "1")).wantReplies("7 1", "8 done").wantStatus(Running)
}

func TestSilenceDoesNotCountWhileARequestIsOut(t *testing.T) {
	t.Run("the watchdog stops and starts anew", func(t *testing.T) {
		sc := newScene(t).running().step(call(7, "r1", `{}`)).wantEffects(sentOut(1)...)
		sc.forget().step(submit(8, "r1", "1")).wantEffects(cameBack...)
		if got := sc.s.LastFrame(); !got.Equal(sc.now) {
			t.Errorf("silence is counted from %s, want %s", got, sc.now)
		}
	})
	t.Run("one that ran out just before is nothing", func(t *testing.T) {
		newScene(t).running().step(call(7, "r1", `{}`)).forget().step(fired(TimerSilence, 1)).
			wantEffects().wantEvents().wantReplies().wantStatus(WaitingToolResult)
	})
	t.Run("a call before the start returns", func(t *testing.T) {
		sc := newScene(t).starting().step(call(7, "r1", `{}`), Started{Turn: 1})
		sc.wantEffects("arm tool turn=1 1m0s", "disarm silence", "disarm start")
		sc.forget().step(submit(8, "r1", "1")).wantEffects(cameBack...)
	})
	t.Run("an answer before the start returns", func(t *testing.T) {
		sc := newScene(t).starting().step(call(7, "r1", `{}`), submit(8, "r1", "1")).forget()
		sc.step(Started{Turn: 1}).wantEffects("disarm start", "arm silence turn=1")
	})
}
