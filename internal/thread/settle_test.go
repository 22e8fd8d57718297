package thread

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// reloaded has the thread of a scene as another daemon finds it after a crash.
func (sc *scene) reloaded() *scene {
	sc.t.Helper()
	op := sc.s.turn.operation
	rec := sc.s.Record
	rec.Instance = earlier
	fresh := &scene{t: sc.t, now: sc.now, armed: armedTimers{}}
	fresh.s = NewState(Loaded{Record: rec, Operations: sc.s.Operations}, op, self).Crashed()
	return fresh
}

func TestSettling(t *testing.T) {
	interrupted := []string{"operation_completed user false OPERATION_INTERRUPTED op=op +", "status_changed idle"}
	endedInTurn := []string{"ended +", "operation_completed user false THREAD_ENDED op=op +", "status_changed ended"}
	endedQuietly := []string{"ended +", "status_changed ended"}
	plain := func(*Record) {}
	tests := []struct {
		name    string
		thread  func(*Record)
		from    func(*scene) *scene
		shown   Status // before it is settled
		events  []string
		settled Status
	}{
		{"idle", plain, (*scene).talked, Idle, nil, Idle},
		{"in error", plain, (*scene).failed, Failed, nil, Failed},
		{"ended", plain, (*scene).ended, Ended, nil, Ended},
		{"attaching", plain, (*scene).attaching, Running, interrupted, Idle},
		{"in a turn", plain, (*scene).running, Running, interrupted, Idle},
		{"waiting for a tool", plain, (*scene).calling, Running, interrupted, Idle},
		{"cancelling", plain, func(sc *scene) *scene { return sc.cancelling(7) }, Running, interrupted, Idle},
		{"stopping", plain, func(sc *scene) *scene { return sc.stopping(7) }, Stopping, endedInTurn, Ended},
		{"idle on a managed workspace", managed, (*scene).talked, Stopping, endedQuietly, Ended},
		{"in error on a managed workspace", managed, (*scene).failed, Stopping, endedQuietly, Ended},
		{"in a turn on a managed workspace", managed, (*scene).running, Stopping, endedInTurn, Ended},
		{"waiting for a tool on a managed workspace", managed, (*scene).calling, Stopping, endedInTurn, Ended},
		{"ended on a managed workspace", managed, (*scene).ended, Ended, nil, Ended},
		{"idle with autoEnd", autoEnd, (*scene).talked, Stopping, endedQuietly, Ended},
		{"in a turn with autoEnd", autoEnd, (*scene).running, Stopping, endedInTurn, Ended},
		{"ended with autoEnd", autoEnd, (*scene).ended, Ended, nil, Ended},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old := tt.from(newScene(t, tt.thread))
			if old.s.Workspace.Managed {
				old.s.Workspace.Instance = earlier
			}
			rec := old.s.Record
			rec.Instance = earlier
			if got := rec.SettledStatus(self); got != tt.settled {
				t.Errorf("a list shows %s, want %s", got, tt.settled)
			}
			if got := rec.SettledStatus(earlier); got != rec.Status {
				t.Errorf("the daemon that wrote it shows %s, want %s", got, rec.Status)
			}
			sc := old.reloaded().wantStatus(tt.shown)
			from := sc.s.LatestSeq + 1
			if old.s.Active != nil && sc.s.LatestSeq != old.s.BlockEnd {
				t.Errorf("the numbers go on behind %d, the block ends at %d", sc.s.LatestSeq, old.s.BlockEnd)
			}
			settle(sc).wantEvents(numbered(from, tt.events...)...).wantStatus(tt.settled)
			if sc.s.NeedsSettling(self) || sc.s.Active != nil {
				t.Errorf("not settled: %+v", sc.s.Record)
			}
		})
	}
}

// settle applies the first input of a crashed state. Such a state has no turn to
// speak of, so only what follows is checked.
func settle(sc *scene) *scene {
	sc.t.Helper()
	before := sc.s
	sc.s = Step(before, Settle{}, sc.now, &sc.last)
	if err := checkState(sc.s); err != nil {
		sc.t.Error(err)
	}
	if err := checkSequence(before, sc.s, &sc.last); err != nil {
		sc.t.Error(err)
	}
	if err := checkCompletions(before, sc.s, &sc.last); err != nil {
		sc.t.Error(err)
	}
	for _, ev := range sc.last.Events {
		sc.events = append(sc.events, eventWordsOf(ev))
	}
	for _, e := range sc.last.Effects {
		sc.effects = append(sc.effects, effectWordsOf(e))
	}
	return sc
}

func TestSettlingKeepsTheSessionAndStoresTheOutcome(t *testing.T) {
	old := newScene(t).talked().step(send(7, "b", "text"), Attached{Turn: 2, SessionID: "s1"}, Started{Turn: 2})
	stored := old.s.turn.operation
	sc := settle(old.reloaded())
	if sc.s.Session != old.s.Session {
		t.Errorf("session %+v, want %+v", sc.s.Session, old.s.Session)
	}
	want := stored
	want.Completed = sc.s.LastCompleted
	if diff := cmp.Diff([]Operation{want}, sc.last.Operations, byPointer); diff != "" {
		t.Errorf("stored outcome (-want +got):\n%s", diff)
	}
	sc.wantEffects() // no provider is spoken to
	if sc.s.Instance != self {
		t.Errorf("the settled record belongs to %s", sc.s.Instance)
	}
}

func TestARecordOfThisDaemonIsNotSettled(t *testing.T) {
	sc := newScene(t, managed, autoEnd).talked()
	before := sc.s
	if sc.s.NeedsSettling(self) {
		t.Error("it needs settling")
	}
	if diff := cmp.Diff(before, sc.s.Crashed(), everything); diff != "" {
		t.Errorf("it looks crashed:\n%s", diff)
	}
	sc.forget().step(Settle{}).wantEvents().wantEffects()
}

func TestASettledThreadGoesOn(t *testing.T) {
	sc := settle(newScene(t).talked().step(send(7, "b", "x")).reloaded())
	from := sc.s.LatestSeq + 1
	sc.events = nil
	sc.step(send(8, "c", "y"), Attached{Turn: 1, SessionID: "s1"}, Started{Turn: 1}, finished(1, OutcomeSuccess)).
		wantEvents(numbered(from, "status_changed running op=c", "status_changed idle op=c +", "operation_completed user true op=c")...)
}

func TestAResumeThatMeetsAShutdownDoesNotBringTheThreadBack(t *testing.T) {
	for name, thread := range map[string]func(*Record){"managed": managed, "plain": func(*Record) {}} {
		for _, from := range []string{"idle", "ended"} {
			t.Run(name+"/"+from, func(t *testing.T) {
				sc := inStatus[from](newScene(t, thread)).step(Resume{Caller: 7}, Resume{Caller: 8}, Shutdown{})
				sc.wantReplies("7 CORE_RUNTIME_UNAVAILABLE", "8 CORE_RUNTIME_UNAVAILABLE")
				status := sc.s.Status
				sc.forget().step(WorkspaceChecked{}).wantEvents().wantReplies().wantStatus(status)
			})
		}
	}
}

func TestShutdown(t *testing.T) {
	released := []string{"disarm start", "disarm silence", "disarm stop", "arm session"}
	closed := []string{"close", "disarm autoEnd", "disarm session"}
	plain := func(*Record) {}
	tests := []struct {
		name    string
		thread  func(*Record)
		from    func(*scene) *scene
		events  []string
		effects []string
		replies []string
		status  Status
	}{
		{"idle", plain, (*scene).talked, nil, nil, nil, Idle},
		{"in error", plain, (*scene).failed, nil, nil, nil, Failed},
		{"ended", plain, (*scene).ended, nil, nil, nil, Ended},
		{
			"attaching", plain, (*scene).attaching,
			[]string{"4 operation_completed user false OPERATION_INTERRUPTED op=op +", "5 status_changed idle"},
			append([]string{"abort"}, released...), nil, Idle,
		},
		{
			"in a turn", plain, (*scene).running,
			[]string{"5 operation_completed user false OPERATION_INTERRUPTED op=op +", "6 status_changed idle"},
			append([]string{"abort", "cancel turn=1"}, released...), nil, Idle,
		},
		{
			"cancelling", plain, func(sc *scene) *scene { return sc.cancelling(7) },
			[]string{"5 operation_completed user false OPERATION_INTERRUPTED op=op +", "6 status_changed idle"},
			append([]string{"abort", "cancel turn=1"}, released...), []string{`7 cancelled=false "op"`}, Idle,
		},
		{
			"stopping", plain, func(sc *scene) *scene { return sc.stopping(7) },
			[]string{"6 operation_completed user false OPERATION_INTERRUPTED op=op +", "7 status_changed idle", "8 ended +", "9 status_changed ended"},
			append(append([]string{"abort", "cancel turn=1"}, released...), closed...), []string{"7 done"}, Ended,
		},
		{
			"stopping by our own wish", plain, func(sc *scene) *scene { return sc.stopping(0) },
			[]string{"6 operation_completed user false OPERATION_INTERRUPTED op=op +", "7 status_changed idle", "8 ended +", "9 status_changed ended"},
			append(append([]string{"abort", "cancel turn=1"}, released...), closed...), nil, Ended,
		},
		{
			"on a managed workspace", managed, (*scene).talked,
			[]string{"7 ended +", "8 status_changed ended"}, closed, nil, Ended,
		},
		{
			"in a turn on a managed workspace", managed, (*scene).running,
			[]string{"5 operation_completed user false OPERATION_INTERRUPTED op=op +", "6 status_changed idle", "7 ended +", "8 status_changed ended"},
			append(append([]string{"abort", "cancel turn=1"}, released...), closed...), nil, Ended,
		},
		{
			"with autoEnd", autoEnd, (*scene).failed,
			[]string{"8 ended +", "9 status_changed ended"}, closed, nil, Ended,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.from(newScene(t, tt.thread)).step(Shutdown{}).
				wantEvents(tt.events...).wantEffects(tt.effects...).wantReplies(tt.replies...).wantStatus(tt.status)
		})
	}
}

func TestAStagedUploadIsForgottenWhenItsThreadIsSettled(t *testing.T) {
	for _, status := range []Status{Idle, Ended, Failed} {
		s := newScene(t).s
		s.Status, s.StagedUpload, s.Instance = status, "assets/.pedelec-upl_1", earlier
		if !s.NeedsSettling(s.self) || s.SettledStatus(s.self) != status {
			t.Errorf("%v: needs settling %v, settled status %v", status, s.NeedsSettling(s.self), s.SettledStatus(s.self))
		}
		var out Output
		next := Step(s.Crashed(), Settle{}, noon, &out)
		if next.StagedUpload != "" || next.Status != status || !out.Durable || len(out.Events) != 0 {
			t.Errorf("%v: settled to %v with %q staged, %d events", status, next.Status, next.StagedUpload, len(out.Events))
		}
	}
}

func TestAThreadExpiresOnlyAsItWasListed(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*Record)
		asOf    int // minutes behind the record's last update
		refused bool
		deletes bool
		status  Status
	}{
		{"idle", func(*Record) {}, 0, false, false, Ended},
		{"in error", func(r *Record) { r.Status = Failed }, 0, false, false, Ended},
		{"ended", func(r *Record) { r.Status = Ended }, 0, false, true, Ended},
		{"used since", func(*Record) {}, -1, true, false, Idle},
		{"ended since", func(r *Record) { r.Status = Ended }, -1, true, false, Ended},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t).s
			tt.change(&s.Record)
			in := Expire{Caller: 7, UpdatedAt: s.UpdatedAt.Add(time.Duration(tt.asOf) * time.Minute)}
			var out Output
			next := Step(s, in, noon, &out)
			if refused := len(out.Replies) != 1 || out.Replies[0].Err != nil; refused != tt.refused {
				t.Errorf("refused = %v: %+v", refused, out.Replies)
			}
			if out.Delete != tt.deletes || next.Status != tt.status {
				t.Errorf("delete = %v, status = %v", out.Delete, next.Status)
			}
		})
	}
}

func TestAnEndAnswersThoseWhoWaitForAResumesCheck(t *testing.T) {
	sc := newScene(t)
	var out Output
	s := Step(sc.s, Resume{Caller: 7}, noon, &out)
	out.Reset()
	s = Step(s, End{Caller: 8}, noon, &out)
	if len(out.Replies) != 2 || out.Replies[0].Caller != 7 || out.Replies[0].Err.Code != fault.ThreadEnded {
		t.Fatalf("replies = %+v", out.Replies)
	}
	out.Reset()
	if s = Step(s, WorkspaceChecked{}, noon, &out); s.Status != Ended || len(out.Events) != 0 {
		t.Errorf("the late check made it %v, with %d events", s.Status, len(out.Events))
	}
}

func TestNothingBeginsAfterAShutdown(t *testing.T) {
	var out Output
	s := Step(newScene(t).s, Shutdown{}, noon, &out)
	for _, in := range []Input{send(7, "new", "x"), prepare(7, "new"), Resume{Caller: 7}, CallTool{Caller: 7}} {
		out.Reset()
		Step(s, in, noon, &out)
		if len(out.Replies) != 1 || out.Replies[0].Err == nil || out.Replies[0].Err.Code != fault.CoreRuntimeUnavailable {
			t.Errorf("%T: %+v", in, out.Replies)
		}
	}
}
