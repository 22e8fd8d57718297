package thread

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// TestRandomWalk drives a thread through random inputs, failing commits and
// crashes, as its owner does, and checks what clients rely on. On a failure
// rapid prints the seed and the shortest walk that it found.
func TestRandomWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk(t)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.act()
			if w.deleted {
				w.nobodyWaits()
				return
			}
		}
		w.finish()
	})
}

// walk is a thread's owner with a store in memory, and a client that follows
// the events.
type walk struct {
	t        *rapid.T
	s        State
	now      time.Time
	instance int
	held     Input // could not be stored and is tried again

	// What is stored.
	record     Record
	operations map[string]Operation
	order      []string // operation ids, oldest first
	block      uint64   // key of its own: numbers up to here may have been told

	// What the world has seen.
	lastSeq     uint64
	status      Status
	usage       uint64
	admitted    map[string]bool
	completions map[string]int
	callers     CallerID
	waiting     map[CallerID]bool
	deleted     bool
	old         []frozen
	armed       armedTimers
	tools       toolWalk
}

func newWalk(t *rapid.T) *walk {
	rec := Record{ID: "t1", Revision: 1, Provider: OpenCode, Status: Idle, LatestSeq: 2, CreatedAt: noon, UpdatedAt: noon}
	rec.AutoEnd = rapid.Bool().Draw(t, "autoEnd")
	rec.Workspace.Managed = rapid.Bool().Draw(t, "managed")
	w := &walk{
		t: t, now: noon, instance: 1, record: rec, lastSeq: 2, status: Idle,
		operations: map[string]Operation{}, admitted: map[string]bool{}, completions: map[string]int{}, waiting: map[CallerID]bool{},
		armed: armedTimers{}, tools: newToolWalk(),
	}
	rec.Instance, rec.Workspace.Instance = w.self(), w.self()
	w.record = rec
	w.s = NewState(Loaded{Record: rec}, Operation{}, w.self())
	return w
}

func (w *walk) self() string { return fmt.Sprintf("daemon-%d", w.instance) }

// act does one thing. While an input is held, nothing but its retry, reads and
// a crash can happen.
func (w *walk) act() {
	w.now = w.now.Add(time.Second)
	switch kind := rapid.IntRange(0, 19).Draw(w.t, "action"); {
	case kind == 0:
		w.crash()
	case kind == 1:
		w.reload()
	case kind == 2 && w.held == nil:
		w.chatter()
	case w.held == nil && (kind == 3 || kind >= 7 && w.s.CheckToolCall() == nil):
		w.apply(w.toolInput())
	case w.held != nil:
		w.apply(w.held)
	default:
		w.apply(w.input())
	}
}

// input draws something that may happen now: mostly what moves the turn on,
// sometimes what comes too late.
func (w *walk) input() Input {
	turn := w.s.turn.id
	if rapid.Bool().Draw(w.t, "progress") {
		return w.progress(turn)
	}
	if rapid.IntRange(0, 9).Draw(w.t, "stale") == 0 {
		turn = uint64(rapid.IntRange(0, int(w.s.turns)+1).Draw(w.t, "turn"))
	}
	err := fault.New(fault.ProviderRequestFailed, "No.")
	lost := fault.New(fault.ProviderSessionLost, "Unknown.")
	caller := w.callers + 1
	text := rapid.SampledFrom([]string{"", "hi", strings.Repeat("long ", 30_000)}).Draw(w.t, "text")
	id := fmt.Sprintf("op%d", rapid.IntRange(0, 99).Draw(w.t, "id"))
	return rapid.SampledFrom([]Input{
		send(caller, id, text), send(caller, id, "hi"), prepare(caller, id), prepare(caller, id),
		Cancel{Caller: caller}, Cancel{Caller: caller, OperationID: id}, End{Caller: caller}, End{}, Resume{Caller: caller}, Resume{Caller: caller},
		WorkspaceChecked{}, WorkspaceChecked{Err: fault.New(fault.WorkspaceOpenFailed, "Gone.")},
		Started{Turn: turn}, Started{Turn: turn}, Started{Turn: turn, Err: err},
		Attached{Turn: turn, SessionID: "again", Fresh: true, Lost: lost}, Attached{Turn: turn, Err: err}, Attached{Turn: turn, Err: lost},
		delta(turn, text), delta(turn, "hi"), delta(turn, "there"), message(turn, text), message(turn, PrepareAck), tokens(uint64(len(text))), sessionTokens(uint64(len(text))),
		finished(turn, OutcomeSuccess), finished(turn, OutcomeSuccess), finished(turn, OutcomeCancelled), failed(turn, err), failed(turn, lost), gone(),
		fired(TimerStart, turn), fired(TimerSilence, turn), fired(TimerStop, turn), fired(TimerSession, turn), fired(TimerAutoEnd, turn),
		WatchersChanged{Count: rapid.IntRange(0, 2).Draw(w.t, "watchers")}, Doom{Turn: turn, Err: fault.New(fault.Overloaded, "Too much.")},
		BlockReserved{Turn: turn}, Shutdown{}, Settle{}, Delete{Caller: caller},
	}).Draw(w.t, "input")
}

// progress draws what a healthy client and provider would do next.
func (w *walk) progress(turn uint64) Input {
	caller := w.callers + 1
	id := fmt.Sprintf("next%d", caller)
	switch {
	case len(w.s.resuming) > 0:
		return WorkspaceChecked{}
	case w.s.Status == Ended:
		return Resume{Caller: caller}
	case w.s.Status == Failed:
		return prepare(caller, id)
	case w.s.Status == Idle:
		return rapid.SampledFrom([]Input{send(caller, id, "hi"), prepare(caller, id)}).Draw(w.t, "admit")
	case w.s.turn.phase == attaching && w.s.Session.Resumable:
		return Attached{Turn: turn, SessionID: w.s.Session.ID}
	case w.s.turn.phase == attaching:
		return fresh(turn, fmt.Sprintf("s%d", w.now.Unix()))
	case w.s.turn.phase == starting:
		return Started{Turn: turn}
	}
	return rapid.SampledFrom([]Input{
		delta(turn, "hi"), delta(turn, "there"), message(turn, PrepareAck), finished(turn, OutcomeSuccess),
	}).Draw(w.t, "said")
}

// chatter stands for so many deltas that the reserved numbers are nearly gone.
func (w *walk) chatter() {
	if w.s.turn.phase == sent && w.s.LatestSeq+2 < w.s.BlockEnd {
		w.s.LatestSeq = w.s.BlockEnd - 2
		w.lastSeq = w.s.LatestSeq
	}
}

// apply steps the thread, stores what must be stored, and tells the rest.
func (w *walk) apply(in Input) {
	w.t.Helper()
	if c := CallerOf(in); c != 0 && w.held == nil {
		w.callers = c
		w.waiting[c] = true
		w.tools.asked(in)
	}
	before := w.s
	var out Output
	after := Step(before, in, w.now, &out)
	w.check(checkSettled(before, in, after, &out))
	if (out.Durable || out.Delete) && rapid.IntRange(0, 3).Draw(w.t, "commit") == 0 {
		w.refused(in, &out)
		return
	}
	w.held = nil
	w.s = after
	w.old = append(w.old, freeze(after))
	if out.Durable {
		w.store(out.Commit(&after))
	}
	w.tell(out.Events)
	for _, r := range out.Replies {
		w.answered(r)
	}
	w.check(w.tools.answeredNatively(out.Effects))
	w.armed.follow(out.Effects)
	w.check(w.armed.check(after))
	w.deleted = out.Delete
	w.follow(out.Effects)
}

// checkSettled is checkStep, less what does not hold yet for a crashed state.
func checkSettled(before State, in Input, after State, out *Output) error {
	if _, settle := in.(Settle); settle && before.NeedsSettling(before.self) {
		return checkState(after)
	}
	return checkStep(before, in, after, out)
}

// refused goes on after a commit that failed.
func (w *walk) refused(in Input, out *Output) {
	next, keep := Refuse(w.s, in)
	w.s = next
	w.held = nil
	switch cancel, isCancel := in.(Cancel); {
	case keep && isCancel && w.waiting[cancel.Caller]:
		w.storageAnswer(cancel.Caller)
		w.held = Cancel{OperationID: cancel.OperationID}
	case keep:
		w.held = in
	case CallerOf(in) != 0:
		w.storageAnswer(CallerOf(in)) // the reply of an end in a turn was still to come
	default:
		for _, r := range out.Replies {
			w.storageAnswer(r.Caller)
		}
	}
}

func (w *walk) storageAnswer(c CallerID) {
	w.answered(Reply{Caller: c, Err: fault.New(fault.StorageFull, "No room.")})
}

func (w *walk) answered(r Reply) {
	if !w.waiting[r.Caller] {
		w.t.Fatalf("caller %d is answered twice, or never asked", r.Caller)
	}
	delete(w.waiting, r.Caller)
	w.check(w.tools.answered(r))
}

func (w *walk) store(c Commit) {
	if c.Record.Revision != w.record.Revision+1 {
		w.t.Fatalf("revision %d follows %d", c.Record.Revision, w.record.Revision)
	}
	w.record = c.Record
	for _, op := range c.Operations {
		if _, known := w.operations[op.ID]; !known {
			w.order = append(w.order, op.ID)
			w.admitted[op.ID] = true
			w.completions[op.ID] = 0 // an id that was forgotten may come again
		}
		w.operations[op.ID] = op
	}
	for _, id := range c.Drop {
		if w.operations[id].Completed == nil || id == w.record.LastCompleted.ID {
			w.t.Fatalf("operation %s is dropped: %+v", id, w.operations[id])
		}
		delete(w.operations, id)
		w.order = slices.DeleteFunc(w.order, func(o string) bool { return o == id })
	}
	if len(w.order) > MaxOperations || len(w.order) != len(w.s.Operations) {
		w.t.Fatalf("%d operations are stored, %d remembered", len(w.order), len(w.s.Operations))
	}
}

// tell is the client's side.
func (w *walk) tell(evs []Event) {
	for _, ev := range evs {
		if ev.Seq <= w.lastSeq {
			w.t.Fatalf("number %d after %d: %s", ev.Seq, w.lastSeq, eventWordsOf(ev))
		}
		w.lastSeq = ev.Seq
		w.check(w.tools.page.see(ev))
		switch ev.Kind {
		case EventStatusChanged:
			w.status = ev.Status
		case EventEnded:
			if w.status == Ended {
				w.t.Fatal("ended is told to an ended thread")
			}
		case EventUsageUpdated:
			if ev.TotalTokens < w.usage {
				w.t.Fatalf("usage falls from %d to %d", w.usage, ev.TotalTokens)
			}
			w.usage = ev.TotalTokens
		case EventOperationCompleted:
			w.completions[ev.OperationID]++
			if n := w.completions[ev.OperationID]; n != 1 || !w.admitted[ev.OperationID] {
				w.t.Fatalf("completion %d of %s", n, ev.OperationID)
			}
		}
	}
	w.check(w.tools.agrees(&w.s))
	if w.status != w.s.Status {
		w.t.Fatalf("a client believes %s, the thread is %s", w.status, w.s.Status)
	}
}

// follow carries out the one effect that touches the store.
func (w *walk) follow(effects []Effect) {
	for _, e := range effects {
		if e.Kind == EffectReserveBlock && rapid.Bool().Draw(w.t, "block") {
			w.block = max(w.block, e.BlockEnd)
			w.apply(BlockReserved{Turn: e.Turn, End: e.BlockEnd})
		}
	}
}

// crash loses what was not stored; another daemon loads the thread.
func (w *walk) crash() {
	w.instance++
	clear(w.waiting)
	w.load()
	if w.s.NeedsSettling(w.self()) {
		want := w.record.SettledStatus(w.self())
		w.status = w.s.Status // a client takes a new snapshot
		w.apply(Settle{})
		if w.held == nil && w.s.Status != want {
			w.t.Fatalf("settled as %s, a list shows %s", w.s.Status, want)
		}
		return
	}
	w.status = w.s.Status
}

// reload unloads an idle thread and loads it again in the same daemon.
func (w *walk) reload() {
	if w.held == nil && w.s.Idle() {
		w.load()
	}
}

func (w *walk) load() {
	rec := w.record
	rec.BlockEnd = max(rec.BlockEnd, w.block)
	l := Loaded{Record: rec}
	for _, id := range w.order {
		op := w.operations[id]
		l.Operations = append(l.Operations, Admitted{ID: op.ID, Kind: op.Kind, Hash: op.Hash, AlreadyPrepared: op.AlreadyPrepared})
	}
	var active Operation
	if rec.Active != nil {
		active = w.operations[rec.Active.ID]
	}
	w.held = nil
	w.armed, w.tools = armedTimers{}, newToolWalk()
	w.s = NewState(l, active, w.self()).Crashed()
	if w.s.LatestSeq < w.lastSeq {
		w.t.Fatalf("numbers up to %d were told, the loaded thread goes on at %d", w.lastSeq, w.s.LatestSeq)
	}
}

// finish lets the store work again and the provider be silent, and checks that
// nothing and nobody is left.
func (w *walk) finish() {
	for w.held != nil {
		w.apply(w.held)
	}
	for w.s.Active != nil || len(w.s.resuming) > 0 {
		for _, in := range []Input{WorkspaceChecked{}, Attached{Turn: w.s.turn.id, SessionID: "s"}, Shutdown{}} {
			w.apply(in)
			for w.held != nil {
				w.apply(w.held)
			}
		}
	}
	w.nobodyWaits()
	for id := range w.admitted {
		if w.completions[id] != 1 {
			w.t.Fatalf("operation %s completed %d times", id, w.completions[id])
		}
	}
	for i, f := range w.old {
		if diff := f.changed(); diff != "" {
			w.t.Fatalf("state %d changed after newer ones were built:\n%s", i, diff)
		}
	}
}

func (w *walk) nobodyWaits() {
	if len(w.waiting) > 0 {
		w.t.Fatalf("never answered: %v", slices.Collect(maps.Keys(w.waiting)))
	}
}

func (w *walk) check(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}
