package thread

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// inStatus brings a new thread into each status that requests are judged by.
var inStatus = map[string]func(sc *scene) *scene{
	"idle":              func(sc *scene) *scene { return sc },
	"running":           (*scene).running,
	"waitingToolResult": (*scene).calling,
	"stopping":          func(sc *scene) *scene { return sc.stopping(80) },
	"ended":             (*scene).ended,
	"error":             (*scene).failed,
}

func TestEachStatusAnswersRequestsAsDocumented(t *testing.T) {
	// One row a request, one column a status; "" = the answer comes later.
	statuses := []string{"idle", "running", "waitingToolResult", "stopping", "ended", "error"}
	const (
		admitted     = "7 admitted new alreadyPrepared=false replayed=false"
		notCancelled = `7 cancelled=false ""`
		busy         = "7 THREAD_BUSY"
		over         = "7 THREAD_ENDED"
		inError      = "7 PROVIDER_COMMAND_FAILED"
		done         = "7 done"
		unknown      = "7 PENDING_TOOL_REQUEST_NOT_FOUND"
		later        = ""
	)
	rows := []struct {
		name string
		in   Input
		want [6]string
	}{
		{"send_text", send(7, "new", "hi"), [6]string{admitted, busy, busy, busy, over, inError}},
		{"prepare_thread", prepare(7, "new"), [6]string{admitted, busy, busy, busy, over, admitted}},
		{"cancel_operation", Cancel{Caller: 7}, [6]string{notCancelled, later, later, notCancelled, notCancelled, notCancelled}},
		{"end_thread", End{Caller: 7}, [6]string{done, later, later, later, done, done}},
		{"resume_thread", Resume{Caller: 7}, [6]string{later, busy, busy, busy, later, inError}},
		{"tool_call", call(7, "new", `{"a":1}`), [6]string{busy, later, later, busy, over, busy}},
		{"submit_tool_result", submit(7, "unknown", "1"), [6]string{unknown, unknown, unknown, unknown, unknown, unknown}},
		{"delete_thread", Delete{Caller: 7}, [6]string{busy, busy, busy, busy, done, busy}},
	}
	for _, row := range rows {
		for i, status := range statuses {
			t.Run(row.name+"/"+status, func(t *testing.T) {
				sc := inStatus[status](newScene(t)).step(row.in)
				if row.want[i] == later {
					sc.wantReplies()
					return
				}
				sc.wantReplies(row.want[i])
				if err := sc.last.Replies[0].Err; err != nil && err.Details["threadId"] != "t1" {
					t.Errorf("refusal without threadId: %v", err.Details)
				}
			})
		}
	}
}

func TestRefusedRequestsChangeNothing(t *testing.T) {
	for status, place := range inStatus {
		for _, in := range []Input{send(7, "new", "x"), prepare(7, "new"), Delete{Caller: 7}, Resume{Caller: 7}} {
			t.Run(fmt.Sprintf("%s/%T", status, in), func(t *testing.T) {
				sc := place(newScene(t))
				before := sc.s
				sc.step(in)
				if len(sc.last.Replies) == 0 || sc.last.Replies[0].Err == nil {
					t.Skip("not refused in this status")
				}
				if diff := cmp.Diff(before, sc.s, everything); diff != "" {
					t.Errorf("state changed:\n%s", diff)
				}
				sc.wantEvents().wantEffects()
			})
		}
	}
}

func TestAdmissionTellsRunningAndAttaches(t *testing.T) {
	sc := newScene(t).step(send(7, "op", "hello"))
	sc.wantEvents("3 status_changed running op=op").
		wantReplies("7 admitted op alreadyPrepared=false replayed=false").
		wantEffects("disarm session", "arm start turn=1", "attach turn=1").
		wantStatus(Running)
	if sc.s.BlockEnd != 3+SequenceBlock {
		t.Errorf("block ends at %d, want %d", sc.s.BlockEnd, 3+SequenceBlock)
	}
	want := Operation{ID: "op", Kind: User, Hash: HashText("hello"), Text: "hello", AdmittedSeq: 3, StartedAt: sc.now}
	if diff := cmp.Diff([]Operation{want}, sc.last.Operations); diff != "" {
		t.Errorf("stored operation (-want +got):\n%s", diff)
	}
	if !sc.last.Durable {
		t.Error("an admission is durable before it is answered")
	}
}

func TestStoredTextIsCutButHashedWhole(t *testing.T) {
	text := strings.Repeat("a", MaxStoredText-1) + "ä" + "rest"
	sc := newScene(t).step(send(7, "op", text))
	op := sc.last.Operations[0]
	if len(op.Text) != MaxStoredText-1 || !op.TextTruncated || op.Hash != HashText(text) {
		t.Errorf("%d bytes stored, truncated %t", len(op.Text), op.TextTruncated)
	}
	sc.step(fresh(1, "s1"))
	if got := sc.last.Effects[0].Text; got != text {
		t.Errorf("the provider is told %d bytes of %d", len(got), len(text))
	}
}

func TestDuplicateOperations(t *testing.T) {
	const again = "8 admitted op alreadyPrepared=false replayed=true"
	places := map[string]func(*scene) *scene{
		"attaching":  (*scene).attaching,
		"running":    (*scene).running,
		"cancelling": func(sc *scene) *scene { return sc.cancelling(80) },
		"stopping":   func(sc *scene) *scene { return sc.stopping(80) },
		"done":       (*scene).talked,
		"error":      (*scene).failed,
		"ended":      func(sc *scene) *scene { return sc.talked().ended() },
	}
	requests := []struct {
		name, want, reason string
		in                 Input
	}{
		{"same", again, "", send(8, "op", "hello")},
		{"other text", "8 INVALID_INPUT", "the id names an operation with another text", send(8, "op", "hello ")},
		{"other kind", "8 INVALID_INPUT", "the id names an operation of another kind", prepare(8, "op")},
	}
	for place, build := range places {
		for _, r := range requests {
			t.Run(place+"/"+r.name, func(t *testing.T) {
				sc := build(newScene(t)).step(r.in)
				sc.wantReplies(r.want).wantEvents().wantEffects()
				if sc.last.Durable {
					t.Error("a duplicate is stored")
				}
				if err := sc.last.Replies[0].Err; err != nil {
					want := map[string]any{"operationId": "op", "reason": r.reason}
					if diff := cmp.Diff(want, err.Details); diff != "" {
						t.Errorf("details (-want +got):\n%s", diff)
					}
				}
			})
		}
	}
}

func TestDuplicateOfAnAlreadyPreparedPrepareSaysSo(t *testing.T) {
	newScene(t).talked().step(prepare(7, "p"), prepare(8, "p")).wantReplies(
		"7 admitted p alreadyPrepared=true replayed=false",
		"8 admitted p alreadyPrepared=true replayed=true",
	)
}

func TestALeavingDaemonAdmitsNothingButAnswersDuplicates(t *testing.T) {
	leaving := func(c CallerID, id string) Input {
		return Admit{Caller: c, Kind: User, OperationID: id, Text: "hello", Leaving: true}
	}
	newScene(t).talked().step(leaving(7, "op"), leaving(8, "new")).wantReplies(
		"7 admitted op alreadyPrepared=false replayed=true",
		"8 CORE_RUNTIME_UNAVAILABLE",
	).wantEvents().wantEffects()
}

func TestOperationsBeyondTheLast64AreForgotten(t *testing.T) {
	sc := newScene(t).talked()
	for i := range MaxOperations {
		sc.step(prepare(7, fmt.Sprintf("p%d", i)))
		wantDrop := []string(nil)
		if i == MaxOperations-1 {
			wantDrop = []string{"op"}
		}
		if diff := cmp.Diff(wantDrop, sc.last.Drop); diff != "" {
			t.Fatalf("operation %d drops (-want +got):\n%s", i, diff)
		}
	}
	if len(sc.s.Operations) != MaxOperations || sc.s.Operations[0].ID != "p0" {
		t.Errorf("%d operations, the oldest %s", len(sc.s.Operations), sc.s.Operations[0].ID)
	}
	sc.forget().step(send(8, "op", "hello")).wantReplies("8 admitted op alreadyPrepared=false replayed=false")
}

func TestCancel(t *testing.T) {
	tests := []struct {
		name    string
		from    func(*scene) *scene
		in      []Input
		events  []string
		effects []string
		replies []string
		status  Status
	}{
		{
			name: "before anything was written it is done at once", from: (*scene).attaching,
			in:      []Input{Cancel{Caller: 7}},
			events:  []string{"4 operation_completed user false OPERATION_CANCELLED op=op +", "5 status_changed idle"},
			effects: []string{"abort", "disarm start", "disarm silence", "disarm stop", "arm session"},
			replies: []string{`7 cancelled=true "op"`}, status: Idle,
		},
		{
			name: "while the text is written it waits for the provider", from: (*scene).starting,
			in:      []Input{Cancel{Caller: 7}},
			effects: []string{"cancel turn=1", "disarm silence", "arm stop turn=1"}, status: Running,
		},
		{
			name: "in a turn it waits for the provider", from: (*scene).running,
			in:      []Input{Cancel{Caller: 7, OperationID: "op"}},
			effects: []string{"cancel turn=1", "disarm silence", "arm stop turn=1"}, status: Running,
		},
		{
			name: "an id that is not the active one", from: (*scene).running,
			in:      []Input{Cancel{Caller: 7, OperationID: "other"}},
			replies: []string{`7 cancelled=false "other"`}, status: Running,
		},
		{
			name: "cancels join", from: (*scene).running,
			in:      []Input{Cancel{Caller: 7}, Cancel{Caller: 8}, finished(1, OutcomeCancelled)},
			events:  []string{"5 operation_completed user false OPERATION_CANCELLED op=op +", "6 status_changed idle"},
			effects: []string{"cancel turn=1", "disarm silence", "arm stop turn=1", "disarm start", "disarm silence", "disarm stop", "arm session"},
			replies: []string{`7 cancelled=true "op"`, `8 cancelled=true "op"`}, status: Idle,
		},
		{
			name: "a success after it means cancelled", from: func(sc *scene) *scene { return sc.cancelling(7) },
			in:      []Input{finished(1, OutcomeSuccess)},
			events:  []string{"5 operation_completed user false OPERATION_CANCELLED op=op +", "6 status_changed idle"},
			effects: []string{"disarm start", "disarm silence", "disarm stop", "arm session"},
			replies: []string{`7 cancelled=true "op"`}, status: Idle,
		},
		{
			name: "a failure after it means cancelled", from: func(sc *scene) *scene { return sc.cancelling(7) },
			in:      []Input{failed(1, fault.New(fault.ProviderRequestFailed, "No."))},
			events:  []string{"5 operation_completed user false OPERATION_CANCELLED op=op +", "6 status_changed idle"},
			effects: []string{"disarm start", "disarm silence", "disarm stop", "arm session"},
			replies: []string{`7 cancelled=true "op"`}, status: Idle,
		},
		{
			name: "a lost runtime after it means cancelled", from: func(sc *scene) *scene { return sc.cancelling(7) },
			in:      []Input{gone()},
			events:  []string{"5 operation_completed user false OPERATION_CANCELLED op=op +", "6 status_changed idle"},
			effects: []string{"disarm start", "disarm silence", "disarm stop", "arm session"},
			replies: []string{`7 cancelled=true "op"`}, status: Idle,
		},
		{
			name: "a start that fails after it means cancelled", from: (*scene).starting,
			in:      []Input{Cancel{Caller: 7}, Started{Turn: 1, Err: fault.New(fault.ProviderRequestFailed, "No.")}},
			events:  []string{"5 operation_completed user false OPERATION_CANCELLED op=op +", "6 status_changed idle"},
			effects: []string{"cancel turn=1", "disarm silence", "arm stop turn=1", "disarm start", "disarm silence", "disarm stop", "arm session"},
			replies: []string{`7 cancelled=true "op"`}, status: Idle,
		},
		{
			name: "a provider that does not confirm is abandoned", from: func(sc *scene) *scene { return sc.cancelling(7) },
			in:      []Input{fired(TimerStop, 1)},
			events:  []string{"5 operation_completed user false OPERATION_CANCELLED op=op +", "6 status_changed idle"},
			effects: []string{"abort", "abandon turn=1", "disarm start", "disarm silence", "disarm stop", "arm session"},
			replies: []string{`7 cancelled=true "op"`}, status: Idle,
		},
		{
			name: "a terminal frame before it wins", from: (*scene).running,
			in:      []Input{finished(1, OutcomeSuccess), Cancel{Caller: 7, OperationID: "op"}},
			events:  []string{"5 status_changed idle op=op +", "6 operation_completed user true op=op"},
			effects: []string{"disarm start", "disarm silence", "disarm stop", "arm session"},
			replies: []string{`7 cancelled=false "op"`}, status: Idle,
		},
		{
			name: "an end beats one that waits", from: func(sc *scene) *scene { return sc.cancelling(7) },
			in:      []Input{End{Caller: 8}, finished(1, OutcomeCancelled)},
			events:  []string{"5 status_changed stopping", "6 ended +", "7 operation_completed user false THREAD_ENDED op=op +", "8 status_changed ended"},
			effects: []string{"arm stop turn=1", "close", "disarm autoEnd", "disarm start", "disarm silence", "disarm stop", "arm session", "disarm session"},
			replies: []string{`7 cancelled=false "op"`, "8 done"}, status: Ended,
		},
		{
			name: "the start watchdog leaves a cancelled turn alone", from: (*scene).starting,
			in:      []Input{Cancel{Caller: 7}, fired(TimerStart, 1)},
			effects: []string{"cancel turn=1", "disarm silence", "arm stop turn=1"}, status: Running,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.from(newScene(t)).step(tt.in...).
				wantEvents(tt.events...).wantEffects(tt.effects...).wantReplies(tt.replies...).wantStatus(tt.status)
		})
	}
}

func TestTextAfterACancelIsStillTold(t *testing.T) {
	newScene(t).cancelling(7).step(delta(1, "a"), message(1, "ab")).
		wantEvents(`5 assistant_delta "a" op=op`, `6 assistant_message "ab" op=op`)
}

func TestEnd(t *testing.T) {
	idleEffects := []string{"close", "disarm autoEnd", "disarm session"}
	turnEffects := []string{"close", "disarm autoEnd", "disarm start", "disarm silence", "disarm stop", "arm session", "disarm session"}
	tests := []struct {
		name    string
		from    func(*scene) *scene
		in      []Input
		events  []string
		effects []string
		replies []string
	}{
		{
			name: "without a turn", from: func(sc *scene) *scene { return sc },
			in:     []Input{End{Caller: 7}},
			events: []string{"3 ended +", "4 status_changed ended"}, effects: idleEffects, replies: []string{"7 done"},
		},
		{
			name: "in error", from: (*scene).failed,
			in:     []Input{End{Caller: 7}},
			events: []string{"8 ended +", "9 status_changed ended"}, effects: idleEffects, replies: []string{"7 done"},
		},
		{
			name: "before anything was written it is done at once", from: (*scene).attaching,
			in: []Input{End{Caller: 7}},
			events: []string{
				"4 status_changed stopping", "5 ended +", "6 operation_completed user false THREAD_ENDED op=op +", "7 status_changed ended",
			},
			effects: append([]string{"abort"}, turnEffects...), replies: []string{"7 done"},
		},
		{
			name: "in a turn it waits for the provider, and ends join", from: (*scene).running,
			in: []Input{End{Caller: 7}, End{Caller: 8}, finished(1, OutcomeSuccess)},
			events: []string{
				"5 status_changed stopping", "6 ended +", "7 operation_completed user false THREAD_ENDED op=op +", "8 status_changed ended",
			},
			effects: append([]string{"cancel turn=1", "disarm silence", "arm stop turn=1"}, turnEffects...),
			replies: []string{"7 done", "8 done"},
		},
		{
			name: "of a prepare", from: (*scene).preparing,
			in: []Input{End{Caller: 7}, gone()},
			events: []string{
				"5 status_changed stopping", "6 ended +", "7 operation_completed prepare false THREAD_ENDED op=op +", "8 status_changed ended",
			},
			effects: append([]string{"cancel turn=1", "disarm silence", "arm stop turn=1"}, turnEffects...),
			replies: []string{"7 done"},
		},
		{
			name: "a provider that does not confirm is abandoned", from: func(sc *scene) *scene { return sc.stopping(7) },
			in:      []Input{fired(TimerStop, 1)},
			events:  []string{"6 ended +", "7 operation_completed user false THREAD_ENDED op=op +", "8 status_changed ended"},
			effects: append([]string{"abort", "abandon turn=1"}, turnEffects...), replies: []string{"7 done"},
		},
		{
			name: "a cancel after it comes too late", from: func(sc *scene) *scene { return sc.stopping(7) },
			in:      []Input{Cancel{Caller: 8, OperationID: "op"}},
			replies: []string{`8 cancelled=false "op"`},
		},
		{
			name: "what the provider says while it stops is not told", from: func(sc *scene) *scene { return sc.stopping(7) },
			in: []Input{delta(1, "late"), message(1, "late")},
		},
		{
			name: "an ended thread answers at once, without events", from: (*scene).ended,
			in:      []Input{End{Caller: 7}},
			replies: []string{"7 done"},
		},
		{
			name: "a terminal frame after the end is nothing", from: func(sc *scene) *scene { return sc.running().step(End{Caller: 7}, fired(TimerStop, 1)).forget() },
			in: []Input{finished(1, OutcomeSuccess), gone(), Started{Turn: 1}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.from(newScene(t)).step(tt.in...).
				wantEvents(tt.events...).wantEffects(tt.effects...).wantReplies(tt.replies...)
		})
	}
}

func TestEndKeepsWhatAResumeNeeds(t *testing.T) {
	sc := newScene(t).talked().step(tokens(10))
	before := sc.s.Record
	sc.ended()
	for what, same := range map[string]bool{
		"session":        sc.s.Session == before.Session,
		"usage":          sc.s.Usage == before.Usage,
		"last operation": sc.s.LastCompleted == before.LastCompleted,
		"workspace":      sc.s.Workspace == before.Workspace,
		"operations":     len(sc.s.Operations) == 1,
	} {
		if !same {
			t.Errorf("the end loses the %s", what)
		}
	}
}

func TestResume(t *testing.T) {
	cause := fault.New(fault.WorkspaceOpenFailed, "It is gone.")
	tests := []struct {
		name    string
		from    func(*scene) *scene
		in      []Input
		events  []string
		effects []string
		replies []string
		status  Status
	}{
		{
			name: "of an ended thread", from: (*scene).ended,
			in:      []Input{Resume{Caller: 7}, WorkspaceChecked{}},
			events:  []string{"5 status_changed idle"},
			effects: []string{"check-workspace"}, replies: []string{"7 snapshot idle"}, status: Idle,
		},
		{
			name: "of an idle thread checks the workspace and tells nothing", from: func(sc *scene) *scene { return sc },
			in:      []Input{Resume{Caller: 7}, WorkspaceChecked{}},
			effects: []string{"check-workspace"}, replies: []string{"7 snapshot idle"}, status: Idle,
		},
		{
			name: "concurrent calls share one outcome", from: (*scene).ended,
			in:      []Input{Resume{Caller: 7}, Resume{Caller: 8}, WorkspaceChecked{}},
			events:  []string{"5 status_changed idle"},
			effects: []string{"check-workspace"}, replies: []string{"7 snapshot idle", "8 snapshot idle"}, status: Idle,
		},
		{
			name: "a workspace that is gone changes nothing", from: (*scene).ended,
			in:      []Input{Resume{Caller: 7}, Resume{Caller: 8}, WorkspaceChecked{Err: cause}},
			effects: []string{"check-workspace"}, replies: []string{"7 WORKSPACE_OPEN_FAILED", "8 WORKSPACE_OPEN_FAILED"}, status: Ended,
		},
		{
			name: "of an idle thread whose workspace is gone", from: func(sc *scene) *scene { return sc },
			in:      []Input{Resume{Caller: 7}, WorkspaceChecked{Err: cause}},
			effects: []string{"check-workspace"}, replies: []string{"7 WORKSPACE_OPEN_FAILED"}, status: Idle,
		},
		{
			name: "a turn that began meanwhile", from: func(sc *scene) *scene { return sc },
			in:      []Input{Resume{Caller: 7}, send(6, "op", "x"), WorkspaceChecked{}},
			events:  []string{"3 status_changed running op=op"},
			effects: []string{"check-workspace", "disarm session", "arm start turn=1", "attach turn=1"},
			replies: []string{"6 admitted op alreadyPrepared=false replayed=false", "7 THREAD_BUSY"}, status: Running,
		},
		{
			name: "a send before its outcome meets an ended thread", from: (*scene).ended,
			in:      []Input{Resume{Caller: 7}, send(6, "op", "x")},
			effects: []string{"check-workspace"}, replies: []string{"6 THREAD_ENDED"}, status: Ended,
		},
		{
			name: "a delete must not take the thread from under it", from: (*scene).ended,
			in:      []Input{Resume{Caller: 7}, Delete{Caller: 8}, WorkspaceChecked{}},
			events:  []string{"5 status_changed idle"},
			effects: []string{"check-workspace"}, replies: []string{"8 THREAD_BUSY", "7 snapshot idle"}, status: Idle,
		},
		{
			name: "a check that nobody waits for is nothing", from: (*scene).ended,
			in: []Input{WorkspaceChecked{}}, status: Ended,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.from(newScene(t)).step(tt.in...).
				wantEvents(tt.events...).wantEffects(tt.effects...).wantReplies(tt.replies...).wantStatus(tt.status)
		})
	}
}

func TestResumeAnswersTheSnapshotAfterItsOwnEvent(t *testing.T) {
	sc := newScene(t).ended().step(Resume{Caller: 7}, WorkspaceChecked{})
	got := sc.last.Replies[0].Value.(Snapshot)
	if got.LatestSeq != sc.s.LatestSeq || got.Status != Idle {
		t.Errorf("snapshot at %d in %s, want %d in idle", got.LatestSeq, got.Status, sc.s.LatestSeq)
	}
}

func TestDeleteRemovesAnEndedThread(t *testing.T) {
	sc := newScene(t).ended().step(Delete{Caller: 7}).wantReplies("7 done").wantEvents()
	if !sc.last.Delete {
		t.Error("the output does not ask for the removal")
	}
}

func TestRefuse(t *testing.T) {
	// Which inputs are given up when their outcome cannot be stored, and which
	// are kept and tried again.
	resuming := func(sc *scene) *scene { return sc.ended().step(Resume{Caller: 7}).forget() }
	tests := []struct {
		name string
		from func(*scene) *scene
		in   Input
		keep bool
	}{
		{"admission", func(sc *scene) *scene { return sc }, send(7, "op", "x"), false},
		{"end that somebody asked for", func(sc *scene) *scene { return sc }, End{Caller: 7}, false},
		{"end of our own", func(sc *scene) *scene { return sc }, End{}, true},
		{"first half of an end", (*scene).running, End{Caller: 7}, false},
		{"second half of an end", func(sc *scene) *scene { return sc.stopping(7) }, finished(1, OutcomeCancelled), true},
		{"cancel at once", (*scene).attaching, Cancel{Caller: 7}, true},
		{"terminal frame", (*scene).running, finished(1, OutcomeSuccess), true},
		{"message", (*scene).running, message(1, "x"), true},
		{"usage", (*scene).running, tokens(5), true},
		{"fresh session", (*scene).attaching, fresh(1, "s"), true},
		{"stop timer", func(sc *scene) *scene { return sc.cancelling(7) }, fired(TimerStop, 1), true},
		{"start timer", (*scene).attaching, fired(TimerStart, 1), true},
		{"shutdown", (*scene).running, Shutdown{}, true},
		{"doom", (*scene).attaching, Doom{Turn: 1, Err: fault.New(fault.Overloaded, "Too much.")}, true},
		{"resume", resuming, WorkspaceChecked{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := tt.from(newScene(t))
			var out Output
			Step(sc.s, tt.in, sc.now, &out)
			if !out.Durable {
				t.Fatal("nothing would be stored")
			}
			next, keep := Refuse(sc.s, tt.in)
			if keep != tt.keep {
				t.Errorf("kept %t, want %t", keep, tt.keep)
			}
			want := sc.s
			if _, resumed := tt.in.(WorkspaceChecked); resumed {
				want.resuming = nil // they were answered; the next request begins anew
			}
			if diff := cmp.Diff(want, next, everything); diff != "" {
				t.Errorf("the state that goes on (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARefusedResumeBeginsAnew(t *testing.T) {
	sc := newScene(t).ended().step(Resume{Caller: 7}).forget()
	sc.s, _ = Refuse(sc.s, WorkspaceChecked{})
	sc.step(Resume{Caller: 8}, WorkspaceChecked{}).
		wantEffects("check-workspace").wantReplies("8 snapshot idle").wantEvents("5 status_changed idle")
}

func TestARetriedInputTellsTheSameNumbers(t *testing.T) {
	sc := newScene(t).running()
	var lost Output
	Step(sc.s, finished(1, OutcomeSuccess), sc.now, &lost)
	sc.s, _ = Refuse(sc.s, finished(1, OutcomeSuccess))
	sc.step(finished(1, OutcomeSuccess))
	for i, ev := range sc.last.Events {
		if ev.Seq != lost.Events[i].Seq {
			t.Errorf("event %d: number %d, before %d", i, ev.Seq, lost.Events[i].Seq)
		}
	}
}

func TestCallerOf(t *testing.T) {
	for _, in := range []Input{Admit{Caller: 3}, Cancel{Caller: 3}, End{Caller: 3}, Resume{Caller: 3}, Delete{Caller: 3}} {
		if CallerOf(in) != 3 {
			t.Errorf("%T has caller %d", in, CallerOf(in))
		}
	}
	if CallerOf(Shutdown{}) != 0 {
		t.Error("a shutdown has a caller")
	}
}

func TestRefusalsAreComparableByCode(t *testing.T) {
	sc := newScene(t).ended().step(send(7, "op", "x"))
	if err := sc.last.Replies[0].Err; !errors.Is(err, fault.New(fault.ThreadEnded, "")) || err.Message() == "" {
		t.Errorf("got %v", err)
	}
}
