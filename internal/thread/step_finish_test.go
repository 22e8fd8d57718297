package thread

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// TestEventOrders holds each situation of the event table to its exact events:
// the clients' handles end in the wrong state with any other order.
func TestEventOrders(t *testing.T) {
	refused := fault.New(fault.ProviderRequestFailed, "No.")
	tests := []struct {
		situation string
		from      func(*scene) *scene
		in        []Input
		events    []string
	}{
		{
			situation: "turn admitted", from: func(sc *scene) *scene { return sc },
			in:     []Input{send(7, "op", "hello")},
			events: []string{"3 status_changed running op=op"},
		},
		{
			situation: "prepare admitted", from: func(sc *scene) *scene { return sc },
			in:     []Input{prepare(7, "op")},
			events: []string{"3 status_changed running op=op"},
		},
		{
			situation: "turn succeeds", from: func(sc *scene) *scene { return sc },
			in: []Input{send(7, "op", "hello"), fresh(1, "s1"), Started{Turn: 1}, delta(1, "H"), delta(1, "i"), message(1, "Hi"), tokens(5), finished(1, OutcomeSuccess)},
			events: []string{
				"3 status_changed running op=op", "4 provider_session_id_updated s1 op=op",
				`5 assistant_delta "H" op=op`, `6 assistant_delta "i" op=op`, `7 assistant_message "Hi" op=op`, "8 usage_updated 5",
				"9 status_changed idle op=op +", "10 operation_completed user true op=op",
			},
		},
		{
			situation: "turn fails", from: (*scene).running,
			in: []Input{delta(1, "begun"), failed(1, refused)},
			events: []string{
				`5 assistant_delta "begun" op=op`,
				"6 error opencode PROVIDER_REQUEST_FAILED op=op +", "7 status_changed error op=op +",
				"8 operation_completed user false PROVIDER_REQUEST_FAILED op=op",
			},
		},
		{
			situation: "prepare succeeds", from: (*scene).preparing,
			in:     []Input{delta(1, "PEDELEC"), message(1, PrepareAck), finished(1, OutcomeSuccess)},
			events: []string{"5 status_changed idle op=op +", "6 operation_completed prepare true op=op"},
		},
		{
			situation: "prepare fails", from: (*scene).preparing,
			in: []Input{failed(1, refused)},
			events: []string{
				"5 error opencode PROVIDER_REQUEST_FAILED op=op +", "6 status_changed idle op=op +",
				"7 operation_completed prepare false PROVIDER_REQUEST_FAILED op=op",
			},
		},
		{
			situation: "prepare on a prepared thread", from: (*scene).talked,
			in: []Input{prepare(7, "warm")},
			events: []string{
				"7 status_changed running op=warm +", "8 status_changed idle op=warm +", "9 operation_completed prepare true op=warm",
			},
		},
		{
			situation: "turn cancelled", from: (*scene).running,
			in:     []Input{Cancel{Caller: 7}, finished(1, OutcomeCancelled)},
			events: []string{"5 operation_completed user false OPERATION_CANCELLED op=op +", "6 status_changed idle"},
		},
		{
			situation: "prepare cancelled", from: (*scene).preparing,
			in:     []Input{Cancel{Caller: 7}, message(1, PrepareAck), finished(1, OutcomeSuccess)},
			events: []string{"5 operation_completed prepare false OPERATION_CANCELLED op=op +", "6 status_changed idle"},
		},
		{
			situation: "end without a turn", from: (*scene).talked,
			in:     []Input{End{Caller: 7}},
			events: []string{"7 ended +", "8 status_changed ended"},
		},
		{
			situation: "end in a turn", from: (*scene).running,
			in: []Input{End{Caller: 7}, finished(1, OutcomeCancelled)},
			events: []string{
				"5 status_changed stopping", "6 ended +", "7 operation_completed user false THREAD_ENDED op=op +", "8 status_changed ended",
			},
		},
		{
			situation: "resume", from: (*scene).ended,
			in:     []Input{Resume{Caller: 7}, WorkspaceChecked{}},
			events: []string{"5 status_changed idle"},
		},
		{
			situation: "provider session lost", from: func(sc *scene) *scene { return sc.talked().step(send(7, "next", "x")).forget() },
			in: []Input{
				Attached{Turn: 2, SessionID: "s2", Fresh: true, Lost: fault.New(fault.ProviderSessionLost, "Unknown.")},
				Started{Turn: 2}, message(2, "Hi"), finished(2, OutcomeSuccess),
			},
			events: []string{
				"8 error opencode PROVIDER_SESSION_LOST op=next", "9 provider_session_id_updated s2 op=next",
				`10 assistant_message "Hi" op=next`, "11 status_changed idle op=next +", "12 operation_completed user true op=next",
			},
		},
		{
			situation: "the agent cancels by itself", from: (*scene).running,
			in: []Input{finished(1, OutcomeCancelled)},
			events: []string{
				"5 error opencode PROVIDER_REQUEST_FAILED op=op +", "6 status_changed error op=op +",
				"7 operation_completed user false PROVIDER_REQUEST_FAILED op=op",
			},
		},
		{
			situation: "the agent gives no reason", from: (*scene).running,
			in: []Input{finished(1, OutcomeFailed)},
			events: []string{
				"5 error opencode PROVIDER_REQUEST_FAILED op=op +", "6 status_changed error op=op +",
				"7 operation_completed user false PROVIDER_REQUEST_FAILED op=op",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.situation, func(t *testing.T) {
			tt.from(newScene(t)).step(tt.in...).wantEvents(tt.events...)
		})
	}
}

func TestAnOutcomeIsStoredWithItsOperation(t *testing.T) {
	sc := newScene(t).attaching()
	admitted := sc.s.turn.operation
	sc.step(fresh(1, "s1"), Started{Turn: 1}, finished(1, OutcomeSuccess))
	want := admitted
	want.Completed = &CompletedOperation{ID: "op", Kind: User, Success: true, CompletedAt: sc.now}
	if diff := cmp.Diff([]Operation{want}, sc.last.Operations); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if sc.s.BlockEnd != 0 {
		t.Errorf("unused numbers up to %d are kept", sc.s.BlockEnd)
	}
}

func TestAPreparedPrepareIsNeverSeenAsActive(t *testing.T) {
	sc := newScene(t).talked().step(prepare(7, "warm")).wantEffects()
	if sc.s.Active != nil || sc.s.BlockEnd != 0 || sc.s.LastCompleted.ID != "warm" {
		t.Errorf("active %v, block %d, last %v", sc.s.Active, sc.s.BlockEnd, sc.s.LastCompleted)
	}
	op := sc.last.Operations[0]
	if op.AdmittedSeq != 7 || !op.AlreadyPrepared || op.Completed == nil || !op.Completed.Success {
		t.Errorf("stored operation %+v", op)
	}
}

func TestPrepareSendsTheHostsPrompt(t *testing.T) {
	sc := newScene(t).step(prepare(7, "op"), fresh(1, "s1"))
	if e := sc.last.Effects[0]; e.Kind != EffectStartTurn || e.Purpose != Prepare || e.Text != PreparePrompt {
		t.Errorf("effect %+v", e)
	}
}

func TestPrepareAcknowledgement(t *testing.T) {
	tests := []struct {
		name   string
		reply  []string
		ok     bool
		output string // what a refusal shows
	}{
		{"exact", []string{PrepareAck}, true, ""},
		{"with white space around", []string{"\n " + PrepareAck + "\t\n"}, true, ""},
		{"in two messages", []string{"PEDELEC_", "PREPARED"}, true, ""},
		{"nothing", nil, false, ""},
		{"empty", []string{""}, false, ""},
		{"quoted", []string{"`" + PrepareAck + "`"}, false, "`" + PrepareAck + "`"},
		{"other case", []string{"pedelec_prepared"}, false, "pedelec_prepared"},
		{"a sentence before it", []string{"Sure!", PrepareAck}, false, "Sure!" + PrepareAck},
		{"something far behind it", []string{PrepareAck + strings.Repeat(" ", maxAckBytes), "and more"}, false, PrepareAck + strings.Repeat(" ", maxAckDetail-len(PrepareAck))},
		{"something behind white space up to the limit", []string{PrepareAck + strings.Repeat(" ", maxAckBytes-len(PrepareAck)) + "x"}, false, PrepareAck + strings.Repeat(" ", maxAckDetail-len(PrepareAck))},
		{"long, cut at a code point", []string{strings.Repeat("a", maxAckDetail-1) + "ä"}, false, strings.Repeat("a", maxAckDetail-1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := newScene(t).preparing()
			for _, text := range tt.reply {
				sc.step(message(1, text))
			}
			sc.wantEvents().step(finished(1, OutcomeSuccess)).wantStatus(Idle)
			if sc.s.Prepared != tt.ok || sc.s.LastCompleted.Success != tt.ok {
				t.Fatalf("prepared %t, completed %+v", sc.s.Prepared, sc.s.LastCompleted)
			}
			if tt.ok {
				return
			}
			want := map[string]any{"threadId": "t1", "provider": "opencode", "assistantOutput": tt.output}
			err := sc.s.LastCompleted.Error
			if diff := cmp.Diff(want, err.Details); err.Code != fault.PrepareAckInvalid || diff != "" {
				t.Errorf("%s, details (-want +got):\n%s", err.Code, diff)
			}
		})
	}
}

func TestAFailedPrepareForgetsTheSessionThatItOpened(t *testing.T) {
	newScene(t).preparing().step(message(1, "Hello!")).forget().step(finished(1, OutcomeSuccess)).
		wantEffects("close", "disarm start", "disarm silence", "disarm stop", "arm session").wantStatus(Idle)
	sc := newScene(t).preparing().step(finished(1, OutcomeSuccess))
	if sc.s.Session != (ProviderSession{}) {
		t.Errorf("session %+v is kept", sc.s.Session)
	}
}

func TestAFailedPrepareKeepsAnOlderSession(t *testing.T) {
	// The session is older, but no turn has succeeded on it.
	sc := newScene(t).failed().step(prepare(7, "warm"), Attached{Turn: 2, SessionID: "s1"}, Started{Turn: 2}).forget()
	sc.step(finished(2, OutcomeSuccess)).wantStatus(Idle).
		wantEffects("disarm start", "disarm silence", "disarm stop", "arm session")
	if sc.s.Session.ID != "s1" {
		t.Errorf("session %+v", sc.s.Session)
	}
}

func TestPrepareHealsAThreadInError(t *testing.T) {
	for name, last := range map[string][]Input{
		"success":   {message(2, PrepareAck), finished(2, OutcomeSuccess)},
		"failure":   {failed(2, fault.New(fault.ProviderTimeout, "Late."))},
		"cancelled": {Cancel{Caller: 8}, finished(2, OutcomeCancelled)},
	} {
		t.Run(name, func(t *testing.T) {
			newScene(t).failed().step(prepare(7, "warm"), fresh(2, "s2"), Started{Turn: 2}).step(last...).wantStatus(Idle)
		})
	}
	// A thread that talked counts as prepared, from error too.
	sc := newScene(t).talked().step(send(6, "b", "x"), Attached{Turn: 2, SessionID: "s1"}, Started{Turn: 2}, gone()).wantStatus(Failed).forget()
	sc.step(prepare(7, "warm")).wantStatus(Idle).wantEffects().wantReplies("7 admitted warm alreadyPrepared=true replayed=false")
}

func TestWhatASuccessRecordsOfTheSession(t *testing.T) {
	sc := newScene(t).preparing().step(message(1, PrepareAck), finished(1, OutcomeSuccess))
	want := ProviderSession{ID: "s1", Resumable: true, Instructed: true}
	if sc.s.Session != want || !sc.s.Prepared {
		t.Errorf("after a prepare: session %+v, prepared %t", sc.s.Session, sc.s.Prepared)
	}
	sc.step(send(8, "b", "x"), Attached{Turn: 2, SessionID: "s1"}, Started{Turn: 2}, finished(2, OutcomeSuccess))
	want.UserTurn = true
	if sc.s.Session != want || !sc.s.Prepared {
		t.Errorf("after a turn: session %+v, prepared %t", sc.s.Session, sc.s.Prepared)
	}
}

func TestASessionIsResumableOnlyOnceATurnSucceededOnIt(t *testing.T) {
	for name, sc := range map[string]*scene{
		"failed":    newScene(t).failed(),
		"cancelled": newScene(t).cancelling(7).step(finished(1, OutcomeCancelled)),
	} {
		if sc.s.Session.Resumable || sc.s.Session.ID != "s1" {
			t.Errorf("%s: session %+v", name, sc.s.Session)
		}
	}
}

func TestPreparedIsKeptAndLost(t *testing.T) {
	prepared := func() *scene {
		return newScene(t).preparing().step(message(1, PrepareAck), finished(1, OutcomeSuccess))
	}
	sc := prepared().ended().step(Resume{Caller: 7}, WorkspaceChecked{}, prepare(8, "again"))
	sc.wantReplies("7 snapshot idle", "8 admitted again alreadyPrepared=true replayed=false")

	lost := fault.New(fault.ProviderSessionLost, "Unknown.")
	sc = prepared().step(send(7, "b", "x"), Attached{Turn: 2, SessionID: "s2", Fresh: true, Lost: lost})
	if sc.s.Prepared || sc.s.Session.UserTurn {
		t.Error("the thread counts as prepared after its session was lost")
	}
}

func TestALostSessionThatFailsTheTurnIsForgottenInThatCommit(t *testing.T) {
	lost := fault.New(fault.ProviderSessionLost, "Unknown again.")
	for name, in := range map[string]Input{
		"at attach": Attached{Turn: 2, Err: lost},
		"in a turn": failed(2, lost),
	} {
		t.Run(name, func(t *testing.T) {
			sc := newScene(t).talked().step(send(7, "b", "x"))
			if name == "in a turn" {
				sc.step(Attached{Turn: 2, SessionID: "s1"}, Started{Turn: 2})
			}
			sc.forget().step(in).wantStatus(Failed).
				wantEffects("close", "disarm start", "disarm silence", "disarm stop", "arm session")
			if sc.s.Session != (ProviderSession{}) || sc.s.prepared() {
				t.Errorf("session %+v is kept", sc.s.Session)
			}
		})
	}
}
