package thread

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everything compares states down to their unexported parts; errors by identity,
// since they are immutable.
var everything = cmp.Options{cmp.AllowUnexported(State{}, turn{}, broker{}, toolCall{}, finishedCall{}, answeredRequest{}), byPointer}

// frozen is a state together with a copy of all that it reaches.
type frozen struct{ state, copy State }

func freeze(s State) frozen {
	c := s
	c.EffortArgs = slices.Clone(s.EffortArgs)
	c.Operations = slices.Clone(s.Operations)
	c.resuming = slices.Clone(s.resuming)
	c.turn.enders = slices.Clone(s.turn.enders)
	c.turn.cancels = slices.Clone(s.turn.cancels)
	c.turn.open = slices.Clone(s.turn.open)
	c.answered = slices.Clone(s.answered)
	c.turn.tools = cloneBroker(s.turn.tools)
	if s.Active != nil {
		active := *s.Active
		c.Active = &active
	}
	if s.LastCompleted != nil {
		last := *s.LastCompleted
		c.LastCompleted = &last
	}
	return frozen{s, c}
}

func cloneBroker(b broker) broker {
	b.queue, b.finished = slices.Clone(b.queue), slices.Clone(b.finished)
	if b.out != nil {
		b.out = cloneCall(b.out)
	}
	for i := range b.queue {
		b.queue[i] = cloneCall(b.queue[i])
	}
	for i := range b.finished {
		b.finished[i].call = cloneCall(b.finished[i].call)
		b.finished[i].unknown = slices.Clone(b.finished[i].unknown)
	}
	return b
}

func cloneCall(c *toolCall) *toolCall {
	clone := *c
	clone.waiters = slices.Clone(c.waiters)
	clone.args = slices.Clone(c.args)
	return &clone
}

// changed returns what differs from the time of the copy, or "".
func (f frozen) changed() string {
	if reflect.DeepEqual(f.copy, f.state) {
		return ""
	}
	return cmp.Diff(f.copy, f.state, everything)
}

func TestOlderStatesStayAsTheyWere(t *testing.T) {
	sc := newScene(t)
	var kept []frozen
	see := func(ins ...Input) {
		for _, in := range ins {
			sc.step(in)
			kept = append(kept, freeze(sc.s))
		}
	}
	see(prepare(1, "p"), fresh(1, "s1"), Started{Turn: 1}, message(1, PrepareAck), finished(1, OutcomeSuccess))
	see(send(2, "a", "x"), Attached{Turn: 2, SessionID: "s1"}, Started{Turn: 2})
	for range 300 {
		see(delta(2, strings.Repeat("text ", 200)))
	}
	for i := range CallerID(4) { // joined and queued, answered, again, delivered
		see(call(20+i, "r1", "same"), call(30+i, fmt.Sprintf("q%d", i), fmt.Sprint(i)))
	}
	see(nativeCall("n", "c1", "native"), call(40, "q", "0"), submit(50, "r1", "1"), call(41, "again", "same"), Delivered{Waiter: 21}, call(42, "again", "same"))
	see(submit(51, "q0", "2"), submit(52, "q1", "3"), fired(TimerTool, 4), Delivered{Waiter: 32}, callWithID(43, "r9", "c9", "x"))
	see(tokens(3), Cancel{Caller: 3}, Cancel{Caller: 4}, End{Caller: 5}, End{Caller: 6}, finished(2, OutcomeCancelled))
	see(Resume{Caller: 7}, Resume{Caller: 8}, WorkspaceChecked{})
	for i := range MaxOperations + 10 {
		see(prepare(9, "op"+string(rune('A'+i))))
	}
	for i, f := range kept {
		if diff := f.changed(); diff != "" {
			t.Fatalf("state %d changed after newer ones were built:\n%s", i, diff)
		}
	}
}

// A commit that fails makes the owner step the same state again, with another
// input perhaps.
func TestTwoFuturesOfAStateDoNotMeet(t *testing.T) {
	tests := []struct {
		name  string
		from  func(*scene) *scene
		a, b  Input
		names func(State) any
	}{
		{"admissions", func(sc *scene) *scene { return sc.talked().step(prepare(1, "p1"), prepare(1, "p2")) },
			prepare(7, "a"), prepare(8, "b"), func(s State) any { return s.Operations }},
		{"cancels", func(sc *scene) *scene {
			return sc.running().step(Cancel{Caller: 1}, Cancel{Caller: 2}, Cancel{Caller: 3})
		},
			Cancel{Caller: 7}, Cancel{Caller: 8}, func(s State) any { return s.turn.cancels }},
		{"ends", func(sc *scene) *scene { return sc.running().step(End{Caller: 1}, End{Caller: 2}, End{Caller: 3}) },
			End{Caller: 7}, End{Caller: 8}, func(s State) any { return s.turn.enders }},
		{"resumes", func(sc *scene) *scene {
			return sc.ended().step(Resume{Caller: 1}, Resume{Caller: 2}, Resume{Caller: 3})
		},
			Resume{Caller: 7}, Resume{Caller: 8}, func(s State) any { return s.resuming }},
		{"joins", func(sc *scene) *scene {
			return sc.running().step(call(1, "r1", "a"), call(2, "", "a"), call(3, "", "a"))
		},
			call(7, "", "a"), call(8, "", "a"), func(s State) any { return s.turn.tools.out }},
		{"joins of a call that waits", func(sc *scene) *scene {
			return sc.calling().step(call(1, "r2", "a"), call(2, "", "a"), call(3, "", "a"))
		},
			call(7, "", "a"), call(8, "", "a"), func(s State) any { return s.turn.tools.queue }},
		{"calls that wait", func(sc *scene) *scene {
			return sc.calling().step(call(1, "r2", "a"), call(2, "r3", "b"), call(3, "r4", "c"))
		},
			call(7, "r5", "d"), call(8, "r5", "e"), func(s State) any { return s.turn.tools.queue }},
		{"results", func(sc *scene) *scene {
			return sc.running().step(call(1, "r1", "a"), submit(2, "r1", "1"), call(3, "r2", "b"), submit(4, "r2", "1"), call(5, "r3", "c"), submit(6, "r3", "1"), call(9, "r4", "d"))
		},
			submit(7, "r4", "1"), submit(8, "r4", "2"), func(s State) any { return s.answered }},
		{"replays", func(sc *scene) *scene {
			return sc.running().step(call(1, "r1", "a"), call(2, "", "a"), call(3, "", "a"), submit(4, "r1", "1"))
		},
			call(7, "", "a"), call(8, "", "a"), func(s State) any { return s.turn.tools.finished }},
		{"deliveries", func(sc *scene) *scene {
			return sc.running().step(call(1, "r1", "a"), call(2, "", "a"), call(3, "", "a"), submit(4, "r1", "1"))
		},
			Delivered{Waiter: 1}, Delivered{Waiter: 2}, func(s State) any { return s.turn.tools.finished }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := tt.from(newScene(t))
			var outA, outB Output
			first := freeze(Step(sc.s, tt.a, sc.now, &outA))
			second := Step(sc.s, tt.b, sc.now, &outB)
			if diff := first.changed(); diff != "" {
				t.Errorf("the first future changed:\n%s", diff)
			}
			if reflect.DeepEqual(tt.names(first.state), tt.names(second)) {
				t.Error("the futures are the same")
			}
		})
	}
}

func TestSnapshotCarriesTheEndOfAnUnfinishedMessage(t *testing.T) {
	tests := []struct {
		name  string
		texts []string
		want  string
	}{
		{"nothing yet", nil, ""},
		{"a few fragments", []string{"Hel", "lo"}, "Hello"},
		{"as long as is shown", []string{strings.Repeat("a", MaxActiveMessage)}, strings.Repeat("a", MaxActiveMessage)},
		{"longer", []string{"b", strings.Repeat("a", MaxActiveMessage)}, strings.Repeat("a", MaxActiveMessage)},
		{"cut at a code point", []string{"ää", strings.Repeat("a", MaxActiveMessage-3)}, "ä" + strings.Repeat("a", MaxActiveMessage-3)},
		{"many times longer", slices.Repeat([]string{strings.Repeat("x", 40<<10) + "y"}, 9), strings.Repeat("x", MaxActiveMessage-(40<<10)-2) + "y" + strings.Repeat("x", 40<<10) + "y"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := newScene(t).running()
			for _, text := range tt.texts {
				sc.step(delta(1, text))
			}
			if got := sc.s.Snapshot().ActiveMessage; got != tt.want {
				t.Errorf("%d bytes, want %d", len(got), len(tt.want))
			}
			sc.step(message(1, "done"))
			if got := sc.s.Snapshot().ActiveMessage; got != "" {
				t.Errorf("%d bytes are left behind the complete message", len(got))
			}
		})
	}
}

func TestSnapshotTellsTheOperations(t *testing.T) {
	sc := newScene(t).talked().step(tokens(12), send(7, "next", "x"))
	got := sc.s.Snapshot()
	want := Snapshot{
		ThreadID: "t1", Status: Running, LatestSeq: 8, Usage: Usage{Known: true, TotalTokens: 12},
		Active:        &ActiveOperation{ID: "next", Kind: User, StartedAt: sc.now},
		LastCompleted: &CompletedOperation{ID: "op", Kind: User, Success: true, CompletedAt: sc.s.LastCompleted.CompletedAt},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

func TestAPrepareHasNoActiveMessage(t *testing.T) {
	sc := newScene(t).preparing().step(delta(1, "PEDELEC"))
	if got := sc.s.Snapshot().ActiveMessage; got != "" {
		t.Errorf("a prepare shows %q", got)
	}
}

func TestIdleSaysWhetherAThreadMayBeUnloaded(t *testing.T) {
	for name, want := range map[string]bool{"idle": true, "running": false, "stopping": false, "ended": true, "error": true} {
		if sc := inStatus[name](newScene(t)); sc.s.Idle() != want {
			t.Errorf("%s: %t, want %t", name, sc.s.Idle(), want)
		}
	}
	if sc := newScene(t).step(Resume{Caller: 7}); sc.s.Idle() {
		t.Error("a thread that is being resumed may not be unloaded")
	}
}
