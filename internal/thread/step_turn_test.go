package thread

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestAttach(t *testing.T) {
	lost := fault.New(fault.ProviderSessionLost, "It is unknown.")
	// known has a thread with one finished turn, whose session can be resumed.
	known := func(sc *scene) *scene { return sc.talked().step(tokens(40), send(7, "next", "more")).forget() }
	tests := []struct {
		name    string
		from    func(*scene) *scene
		in      Attached
		events  []string
		effects []string
		session ProviderSession
		durable bool
	}{
		{
			name: "a fresh session", from: (*scene).attaching, in: Attached{Turn: 1, SessionID: "s1", Fresh: true},
			events:  []string{"4 provider_session_id_updated s1 op=op"},
			effects: []string{`start turn=1 user "hello"`},
			session: ProviderSession{ID: "s1"}, durable: true,
		},
		{
			name: "a provider without session ids", from: (*scene).attaching, in: Attached{Turn: 1, Fresh: true},
			effects: []string{`start turn=1 user "hello"`}, durable: true,
		},
		{
			name: "resumed", from: known, in: Attached{Turn: 2, SessionID: "s1"},
			effects: []string{`start turn=2 user "more"`},
			session: ProviderSession{ID: "s1", Resumable: true, Instructed: true, UserTurn: true},
		},
		{
			name: "resumed under a new id", from: known, in: Attached{Turn: 2, SessionID: "s2"},
			events:  []string{"9 provider_session_id_updated s2 op=next"},
			effects: []string{`start turn=2 user "more"`},
			session: ProviderSession{ID: "s2", Resumable: true, Instructed: true, UserTurn: true}, durable: true,
		},
		{
			name: "session lost: the turn goes on in a fresh one", from: known, in: Attached{Turn: 2, SessionID: "s2", Fresh: true, Lost: lost},
			events: []string{
				"9 error opencode PROVIDER_SESSION_LOST op=next", "10 provider_session_id_updated s2 op=next",
			},
			effects: []string{`start turn=2 user "more"`},
			session: ProviderSession{ID: "s2", UsageBase: 40}, durable: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := tt.from(newScene(t)).step(tt.in).wantEvents(tt.events...).wantEffects(tt.effects...).wantStatus(Running)
			if sc.s.Session != tt.session {
				t.Errorf("session %+v, want %+v", sc.s.Session, tt.session)
			}
			if sc.last.Durable != tt.durable {
				t.Errorf("durable %t, want %t", sc.last.Durable, tt.durable)
			}
		})
	}
}

func TestAnAttachThatComesTooLate(t *testing.T) {
	tests := []struct {
		name    string
		from    func(*scene) *scene
		in      Attached
		effects []string
	}{
		{"after a cancel closes the session", func(sc *scene) *scene { return sc.attaching().step(Cancel{Caller: 7}) }, Attached{Turn: 1, SessionID: "s", Fresh: true}, []string{"close"}},
		{"after an end closes the session", func(sc *scene) *scene { return sc.attaching().step(End{Caller: 7}) }, Attached{Turn: 1, SessionID: "s", Fresh: true}, []string{"close"}},
		{"after the start timed out closes the session", func(sc *scene) *scene { return sc.attaching().step(fired(TimerStart, 1)) }, Attached{Turn: 1, SessionID: "s", Fresh: true}, []string{"close"}},
		{"failed has nothing to close", func(sc *scene) *scene { return sc.attaching().step(Cancel{Caller: 7}) }, Attached{Turn: 1, Err: fault.New(fault.ProviderTimeout, "Late.")}, nil},
		{"leaves the next turn's attach alone", func(sc *scene) *scene { return sc.attaching().step(Cancel{Caller: 7}, send(7, "next", "x")) }, Attached{Turn: 1, SessionID: "s", Fresh: true}, nil},
		{"twice for one turn is nothing", (*scene).running, Attached{Turn: 1, SessionID: "other", Fresh: true}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := tt.from(newScene(t)).forget()
			before := sc.s
			sc.step(tt.in).wantEvents().wantEffects(tt.effects...)
			if diff := cmp.Diff(before, sc.s, everything); diff != "" {
				t.Errorf("the state changed:\n%s", diff)
			}
		})
	}
}

func TestAFailedAttachOrStartFailsTheOperation(t *testing.T) {
	authErr := fault.New(fault.ProviderAuthRequired, "Log in.")
	released := []string{"disarm start", "disarm silence", "disarm stop", "arm session"}
	newScene(t).attaching().step(Attached{Turn: 1, Err: authErr}).wantEvents(
		"4 error opencode PROVIDER_AUTH_REQUIRED op=op +",
		"5 status_changed error op=op +",
		"6 operation_completed user false PROVIDER_AUTH_REQUIRED op=op",
	).wantEffects(released...).wantStatus(Failed)
	newScene(t).starting().step(Started{Turn: 1, Err: authErr}).wantEvents(
		"5 error opencode PROVIDER_AUTH_REQUIRED op=op +",
		"6 status_changed error op=op +",
		"7 operation_completed user false PROVIDER_AUTH_REQUIRED op=op",
	).wantEffects(released...).wantStatus(Failed)
}

func TestAStartedTurnIsWatchedForSilence(t *testing.T) {
	newScene(t).starting().step(Started{Turn: 1}).wantEffects("disarm start", "arm silence turn=1").wantEvents()
	newScene(t).starting().step(Cancel{Caller: 7}).forget().step(Started{Turn: 1}).wantEffects("disarm start")
	newScene(t).running().step(Started{Turn: 1}).wantEffects()
	newScene(t).starting().step(Started{Turn: 9, Err: fault.New(fault.Internal, "Old.")}).wantEffects().wantStatus(Running)
}

func TestATurnMayFinishBeforeItsStartReturns(t *testing.T) {
	newScene(t).starting().step(message(1, "hi"), finished(1, OutcomeSuccess), Started{Turn: 1}).wantEvents(
		`5 assistant_message "hi" op=op`, "6 status_changed idle op=op +", "7 operation_completed user true op=op",
	).wantStatus(Idle)
}

func TestFramesOfAnotherTurnAreNothing(t *testing.T) {
	sc := newScene(t).talked().step(send(7, "next", "x"), Attached{Turn: 2, SessionID: "s1"}, Started{Turn: 2}).forget()
	before := sc.s
	for _, in := range []Input{
		delta(1, "x"), message(1, "x"), finished(1, OutcomeSuccess), failed(1, fault.New(fault.Internal, "Old.")),
		finished(3, OutcomeSuccess), finished(0, OutcomeSuccess), FrameArrived{}, FrameArrived{Frame{Kind: FrameActivity, Turn: 1}},
		fired(TimerStart, 1), fired(TimerSilence, 1), fired(TimerStop, 1), fired(TimerStop, 2), Doom{Turn: 1, Err: fault.New(fault.Overloaded, "Old.")},
		BlockReserved{Turn: 1, End: 1 << 20}, Started{Turn: 1}, Started{Turn: 2}, fired(TimerSession, 0), fired(TimerAutoEnd, 0),
	} {
		sc.step(in).wantEvents().wantEffects()
		if diff := cmp.Diff(before, sc.s, everything); diff != "" {
			t.Errorf("%T%+v changed the state:\n%s", in, in, diff)
		}
	}
}

func TestFramesBeforeTheTextIsHandedOverAreNothing(t *testing.T) {
	newScene(t).attaching().step(delta(1, "x"), finished(1, OutcomeSuccess), gone()).wantEvents().wantStatus(Running)
}

func TestAnIdleThreadDoesNotNoticeALostRuntime(t *testing.T) {
	newScene(t).talked().step(gone()).wantEvents().wantEffects().wantStatus(Idle)
	newScene(t).ended().step(gone()).wantEvents().wantEffects().wantStatus(Ended)
}

func TestALostRuntimeFailsItsTurn(t *testing.T) {
	lost := []string{
		"5 error opencode PROVIDER_RUNTIME_DISCONNECTED op=op +",
		"6 status_changed error op=op +",
		"7 operation_completed user false PROVIDER_RUNTIME_DISCONNECTED op=op",
	}
	newScene(t).running().step(gone()).wantEvents(lost...)
	// While the text is being handed over, the outcome of that decides.
	newScene(t).starting().step(gone()).wantEvents().wantStatus(Running).step(Started{Turn: 1}).wantEvents(lost...)
	newScene(t).starting().step(gone(), finished(1, OutcomeFailed)).wantEvents().wantStatus(Running)
}

func TestATextOfWhichNothingWasSentIsSentOnceMore(t *testing.T) {
	unsent := Started{Turn: 1, Unsent: true, Err: fault.New(fault.ProviderRuntimeDisconnected, "It was dead already.")}
	sc := newScene(t).starting().step(gone(), unsent).wantEvents().wantStatus(Running).wantEffects("attach turn=1").forget()
	sc.step(Attached{Turn: 1, SessionID: sc.s.Session.ID}).wantEffects(`start turn=1 user "hello"`)
	sc.forget().step(unsent).wantStatus(Failed) // but not a third time
	newScene(t).starting().step(Started{Turn: 1, Err: unsent.Err}).wantStatus(Failed)
	newScene(t).starting().step(Cancel{Caller: 7}, unsent).wantStatus(Idle)
}

func TestALostRuntimeNeedsNoReason(t *testing.T) {
	sc := newScene(t).running().step(FrameArrived{Frame{Kind: FrameGone}})
	if err := sc.s.LastCompleted.Error; err.Code != fault.ProviderRuntimeDisconnected {
		t.Errorf("the turn failed with %v", err)
	}
}

func TestTextIsToldAsItComes(t *testing.T) {
	sc := newScene(t).running().step(delta(1, "Hel"), delta(1, ""), delta(1, "lo")).
		wantEvents(`5 assistant_delta "Hel" op=op`, `6 assistant_delta "lo" op=op`)
	if sc.last.Durable {
		t.Error("a delta is stored")
	}
	sc.forget().step(message(1, "Hello")).wantEvents(`7 assistant_message "Hello" op=op`)
	if !sc.last.Durable {
		t.Error("a message is told before it is stored")
	}
	sc.forget().step(message(1, "")).wantEvents(`8 assistant_message "" op=op`)
}

func TestLongDeltasAreToldInPieces(t *testing.T) {
	text := strings.Repeat("a", maxDeltaBytes-1) + "ä" + strings.Repeat("b", maxDeltaBytes)
	sc := newScene(t).running().step(delta(1, text))
	var whole string
	for _, ev := range sc.last.Events {
		if len(ev.Text) > maxDeltaBytes {
			t.Errorf("a piece has %d bytes", len(ev.Text))
		}
		whole += ev.Text
	}
	if whole != text || len(sc.last.Events) != 3 || len(sc.last.Events[0].Text) != maxDeltaBytes-1 {
		t.Errorf("%d pieces, %d of %d bytes", len(sc.last.Events), len(whole), len(text))
	}
}

func TestLongMessagesAreToldInParts(t *testing.T) {
	text := strings.Repeat("a", maxMessageBytes-1) + "ä" + strings.Repeat("\x01", maxMessageBytes/maxEscape)
	sc := newScene(t).running().step(message(1, text))
	var whole string
	for i, ev := range sc.last.Events {
		if want := (Part{Index: i, Count: 3}); ev.Part != want || ev.Kind != EventAssistantMessage || ev.OperationID != "op" {
			t.Errorf("event %d: %s %+v, want part %+v", i, ev.Kind, ev.Part, want)
		}
		whole += ev.Text
	}
	if whole != text {
		t.Errorf("the parts have %d bytes, want %d", len(whole), len(text))
	}
	sc = newScene(t).running().step(message(1, strings.Repeat("a", maxMessageBytes)))
	if len(sc.last.Events) != 1 || sc.last.Events[0].Part != (Part{}) {
		t.Errorf("a message that fits is told in %d events", len(sc.last.Events))
	}
}

func TestDeltasWithoutAReservedNumberAreDropped(t *testing.T) {
	sc := newScene(t).running()
	sc.s.BlockEnd = sc.s.LatestSeq + 1
	sc.step(delta(1, "a"), delta(1, "b")).wantEvents(`5 assistant_delta "a" op=op`)
	if got := sc.s.Snapshot().ActiveMessage; got != "ab" {
		t.Errorf("the snapshot shows %q of the message", got)
	}
	sc.forget().step(message(1, "ab")).wantEvents(`6 assistant_message "ab" op=op`)
	sc.forget().step(BlockReserved{Turn: 1, End: 100}, delta(1, "c")).wantEvents(`7 assistant_delta "c" op=op`)
}

func TestTheNextBlockIsAskedForAtHalf(t *testing.T) {
	sc := newScene(t).running()
	end := sc.s.BlockEnd
	for sc.s.LatestSeq+SequenceBlock/2+1 < end {
		sc.step(delta(1, "x"))
	}
	sc.wantEffects()
	sc.step(delta(1, "x"), delta(1, "x")).wantEffects("reserve turn=1 8195") // once, 4096 behind the first block's end at 4099
	sc.forget().step(BlockReserved{Turn: 1, End: end + SequenceBlock}, delta(1, "x")).wantEffects()
	if sc.s.BlockEnd != end+SequenceBlock {
		t.Errorf("block ends at %d, want %d", sc.s.BlockEnd, end+SequenceBlock)
	}
}

func TestABlockThatCouldNotBeRecordedIsAskedForAgain(t *testing.T) {
	sc := newScene(t).running()
	sc.s.BlockEnd = sc.s.LatestSeq + 10
	sc.step(delta(1, "x")).wantEffects("reserve turn=1 4110")
	sc.forget().step(BlockReserved{Turn: 1}).wantEffects()
	if sc.s.BlockEnd != 14 {
		t.Errorf("block ends at %d, want 14", sc.s.BlockEnd)
	}
	sc.step(delta(1, "x")).wantEffects("reserve turn=1 4110")
}

func TestABlockIsAskedForBehindWhatWasTold(t *testing.T) {
	sc := newScene(t).running()
	sc.s.BlockEnd = sc.s.LatestSeq - 1 // durable events need no reserved number
	sc.step(delta(1, "x")).wantEvents().wantEffects("reserve turn=1 4100")
}

func TestUsage(t *testing.T) {
	tests := []struct {
		name  string
		in    []Input
		want  []string
		total uint64
	}{
		{"shares of turns add up", []Input{tokens(5), tokens(7)}, []string{"5 usage_updated 5", "6 usage_updated 12"}, 12},
		{"zero is a figure", []Input{tokens(0)}, []string{"5 usage_updated 0"}, 0},
		{"nothing new is not told", []Input{tokens(5), tokens(0)}, []string{"5 usage_updated 5"}, 5},
		{"a session's total counts from where the session began", []Input{sessionTokens(30)}, []string{"5 usage_updated 30"}, 30},
		{"a falling figure is not told", []Input{sessionTokens(30), sessionTokens(20), sessionTokens(30)}, []string{"5 usage_updated 30"}, 30},
		{"it never overflows", []Input{tokens(1 << 63), tokens(1<<63 + 5)}, []string{"5 usage_updated 9223372036854775808", "6 usage_updated 18446744073709551615"}, 1<<64 - 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := newScene(t).running().step(tt.in...).wantEvents(tt.want...)
			if want := (Usage{Known: true, TotalTokens: tt.total}); sc.s.Usage != want {
				t.Errorf("usage %+v, want %+v", sc.s.Usage, want)
			}
		})
	}
}

func TestUsageMayComeOutsideATurn(t *testing.T) {
	newScene(t).talked().step(tokens(9)).wantEvents("7 usage_updated 9").wantStatus(Idle)
	newScene(t).failed().step(tokens(9)).wantEvents("8 usage_updated 9").wantStatus(Failed)
	newScene(t).attaching().step(tokens(9)).wantEvents("4 usage_updated 9").wantStatus(Running)
}

func TestASessionsTotalCountsFromTheThreadsTotalWhenItWasOpened(t *testing.T) {
	sc := newScene(t).running().step(sessionTokens(100), finished(1, OutcomeSuccess), send(7, "next", "x"))
	sc.step(Attached{Turn: 2, SessionID: "s2", Fresh: true, Lost: fault.New(fault.ProviderSessionLost, "Lost.")}).forget()
	sc.step(sessionTokens(60)).wantEvents("11 usage_updated 160")
}

func TestUsageSurvivesEndAndResume(t *testing.T) {
	sc := newScene(t).talked().step(tokens(9)).ended().step(Resume{Caller: 7}, WorkspaceChecked{})
	if got := sc.last.Replies[0].Value.(Snapshot).Usage; got != (Usage{Known: true, TotalTokens: 9}) {
		t.Errorf("usage %+v after the resume", got)
	}
}

func TestWatchdogs(t *testing.T) {
	released := []string{"disarm start", "disarm silence", "disarm stop", "arm session"}
	timedOut := func(from string) []string {
		if from == "4" {
			return []string{"4 error opencode PROVIDER_TIMEOUT op=op +", "5 status_changed error op=op +", "6 operation_completed user false PROVIDER_TIMEOUT op=op"}
		}
		return []string{"5 error opencode PROVIDER_TIMEOUT op=op +", "6 status_changed error op=op +", "7 operation_completed user false PROVIDER_TIMEOUT op=op"}
	}
	tests := []struct {
		name    string
		from    func(*scene) *scene
		in      []Input
		events  []string
		effects []string
	}{
		{"no session in time", (*scene).attaching, []Input{fired(TimerStart, 1)}, timedOut("4"), append([]string{"abort"}, released...)},
		{"the text was not taken in time", (*scene).starting, []Input{fired(TimerStart, 1)}, timedOut("5"), append([]string{"abort", "abandon turn=1"}, released...)},
		{"a start watchdog that is late", (*scene).running, []Input{fired(TimerStart, 1)}, nil, nil},
		{"silence interrupts the turn", (*scene).running, []Input{fired(TimerSilence, 1)}, nil, []string{"cancel turn=1", "disarm silence", "arm stop turn=1"}},
		{"and fails it when the agent confirms", (*scene).running, []Input{fired(TimerSilence, 1), finished(1, OutcomeCancelled)}, timedOut("5"),
			append([]string{"cancel turn=1", "disarm silence", "arm stop turn=1"}, released...)},
		{"or when it does not", (*scene).running, []Input{fired(TimerSilence, 1), fired(TimerStop, 1)}, timedOut("5"),
			append([]string{"cancel turn=1", "disarm silence", "arm stop turn=1", "abort", "abandon turn=1"}, released...)},
		{"silence after a cancel is nothing", func(sc *scene) *scene { return sc.cancelling(7) }, []Input{fired(TimerSilence, 1)}, nil, nil},
		{"a stop that was never asked for is nothing", (*scene).running, []Input{fired(TimerStop, 1)}, nil, nil},
		{"an idle session is closed", (*scene).talked, []Input{fired(TimerSession, 0)}, nil, []string{"close"}},
		{"a session in use is not", (*scene).running, []Input{fired(TimerSession, 0)}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.from(newScene(t)).step(tt.in...).wantEvents(tt.events...).wantEffects(tt.effects...)
		})
	}
}

func TestEveryFrameOfTheTurnMovesTheSilenceWatchdog(t *testing.T) {
	for name, f := range map[string]Frame{
		"activity": {Kind: FrameActivity, Turn: 1}, "delta": {Kind: FrameDelta, Turn: 1, Text: "x"},
		"message": {Kind: FrameMessage, Turn: 1}, "tool call": {Kind: FrameToolCall, Turn: 1}, "usage": {Kind: FrameUsage, Turn: 1},
	} {
		sc := newScene(t).running().step(FrameArrived{f})
		if got := sc.s.LastFrame(); !got.Equal(sc.now) {
			t.Errorf("%s: last frame at %s, want %s", name, got.Format(time.TimeOnly), sc.now.Format(time.TimeOnly))
		}
	}
	sc := newScene(t).running()
	before := sc.s.LastFrame()
	if sc.step(FrameArrived{Frame{Kind: FrameActivity, Turn: 2}}); sc.s.LastFrame() != before {
		t.Error("a frame of another turn moved it")
	}
}

func TestADoomedTurnIsInterruptedAndFails(t *testing.T) {
	full := fault.New(fault.StorageFull, "No room.")
	sc := newScene(t).running().step(Doom{Turn: 1, Err: full}).wantEvents().
		wantEffects("cancel turn=1", "disarm silence", "arm stop turn=1").wantStatus(Running)
	sc.forget().step(delta(1, "late"), message(1, "late"), Doom{Turn: 1, Err: fault.New(fault.Overloaded, "Again.")}).wantEvents().wantEffects()
	sc.step(finished(1, OutcomeSuccess)).wantEvents(
		"5 error core STORAGE_FULL op=op +", "6 status_changed error op=op +", "7 operation_completed user false STORAGE_FULL op=op",
	)
}

func TestDoomBeforeAnythingWasWrittenFailsAtOnce(t *testing.T) {
	newScene(t).attaching().step(Doom{Turn: 1, Err: fault.New(fault.Overloaded, "Too much.")}).wantEvents(
		"4 error core OVERLOADED op=op +", "5 status_changed error op=op +", "6 operation_completed user false OVERLOADED op=op",
	).wantEffects("abort", "disarm start", "disarm silence", "disarm stop", "arm session")
}

func TestDoomOfAPreparationLeadsToIdle(t *testing.T) {
	newScene(t).preparing().step(Doom{Turn: 1, Err: fault.New(fault.Overloaded, "Too much.")}, finished(1, OutcomeCancelled)).wantEvents(
		"5 error core OVERLOADED op=op +", "6 status_changed idle op=op +", "7 operation_completed prepare false OVERLOADED op=op",
	)
}

func TestACancelOrEndOverrulesADoom(t *testing.T) {
	doom := Doom{Turn: 1, Err: fault.New(fault.Overloaded, "Too much.")}
	newScene(t).running().step(doom).forget().step(Cancel{Caller: 7}, finished(1, OutcomeCancelled)).wantEvents(
		"5 operation_completed user false OPERATION_CANCELLED op=op +", "6 status_changed idle",
	).wantReplies(`7 cancelled=true "op"`).wantEffects("disarm start", "disarm silence", "disarm stop", "arm session")
	newScene(t).running().step(doom).forget().step(End{Caller: 7}, finished(1, OutcomeCancelled)).wantEvents(
		"5 status_changed stopping", "6 ended +", "7 operation_completed user false THREAD_ENDED op=op +", "8 status_changed ended",
	).wantReplies("7 done")
}

func TestADoomWithoutAReasonIsAFaultOfOurs(t *testing.T) {
	newScene(t).running().step(Doom{Turn: 1}, finished(1, OutcomeCancelled)).wantEvents(
		"5 error core INTERNAL op=op +", "6 status_changed error op=op +", "7 operation_completed user false INTERNAL op=op",
	)
}

func TestAutoEnd(t *testing.T) {
	watch := func(n int) Input { return WatchersChanged{Count: n} }
	tests := []struct {
		name    string
		thread  func(*Record)
		in      []Input
		events  []string
		effects []string
	}{
		{"the last subscriber's leaving starts the clock", autoEnd, []Input{watch(1), watch(2), watch(1), watch(0)}, nil,
			[]string{"disarm autoEnd", "disarm autoEnd", "disarm autoEnd", "arm autoEnd"}},
		{"nobody has subscribed yet", autoEnd, []Input{watch(0)}, nil, nil},
		{"its time runs out", autoEnd, []Input{watch(1), watch(0), fired(TimerAutoEnd, 0)},
			[]string{"3 ended +", "4 status_changed ended"}, []string{"disarm autoEnd", "arm autoEnd", "close", "disarm autoEnd", "disarm session"}},
		{"somebody came back", autoEnd, []Input{watch(1), watch(0), watch(1), fired(TimerAutoEnd, 0)}, nil,
			[]string{"disarm autoEnd", "arm autoEnd", "disarm autoEnd"}},
		{"it was not asked for", func(*Record) {}, []Input{watch(1), watch(0), fired(TimerAutoEnd, 0)}, nil, nil},
		{"in a turn the provider is told first", autoEnd, []Input{send(1, "op", "x"), fresh(1, "s"), Started{Turn: 1}, watch(1), watch(0), fired(TimerAutoEnd, 0), finished(1, OutcomeCancelled)},
			[]string{"3 status_changed running op=op", "4 provider_session_id_updated s op=op", "5 status_changed stopping", "6 ended +", "7 operation_completed user false THREAD_ENDED op=op +", "8 status_changed ended"},
			[]string{"disarm session", "arm start turn=1", "attach turn=1", `start turn=1 user "x"`, "disarm start", "arm silence turn=1", "disarm autoEnd", "arm autoEnd",
				"cancel turn=1", "disarm silence", "arm stop turn=1", "close", "disarm autoEnd", "disarm start", "disarm silence", "disarm stop", "arm session", "disarm session"}},
		{"an ended thread is left alone", autoEnd, []Input{watch(1), End{Caller: 7}, watch(0), fired(TimerAutoEnd, 0)},
			[]string{"3 ended +", "4 status_changed ended"}, []string{"disarm autoEnd", "close", "disarm autoEnd", "disarm session"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			newScene(t, tt.thread).step(tt.in...).wantEvents(tt.events...).wantEffects(tt.effects...)
		})
	}
}
