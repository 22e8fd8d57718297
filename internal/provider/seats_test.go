package provider

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// sitter is a session of which nothing but its seat matters, and what it was told.
type sitter struct {
	Seat
	heard []thread.FrameKind
}

func (s *sitter) Frame(f thread.Frame) { s.heard = append(s.heard, f.Kind) }

// table is a process under test, at a time that stands still.
type table struct {
	*Seats[*sitter]
	now     time.Time
	down    error
	changes int
}

func newTable() *table {
	t := &table{now: time.Unix(1_700_000_000, 0)}
	t.Seats = NewSeats[*sitter](Link{Changed: func() { t.changes++ }}, func() error { return t.down }, Faults{Provider: thread.Codex})
	t.Now = func() time.Time { return t.now }
	return t
}

// seat opens a session for a thread.
func (t *table) seat(tb testing.TB, threadID, id string) *sitter {
	tb.Helper()
	s := &sitter{Seat: Seat{ID: id, ThreadID: threadID}}
	s.Out = NewOutlet(s)
	if err := t.Take(s); err != nil {
		tb.Fatal(err)
	}
	return s
}

func (t *table) begin(s *sitter, turn uint64) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.Begin(s, turn, "turn")
}

func (t *table) end(s *sitter) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.End(s)
}

func TestASeatTakesOneTurnAtATime(t *testing.T) {
	table := newTable()
	s := table.seat(t, "t", "c")
	if err := table.begin(s, 1); err != nil {
		t.Fatal(err)
	}
	if err := table.begin(s, 2); !fault.Is(err, fault.ThreadBusy) || errors.Is(err, fault.ErrUnsent) {
		t.Errorf("a second turn: %v", err)
	}
	if err := table.Take(&sitter{Seat: Seat{ID: "c", ThreadID: "t"}}); !fault.Is(err, fault.ThreadBusy) {
		t.Errorf("a second session in the conversation: %v", err)
	}
	if idle := table.Dismiss("t"); len(idle) != 0 {
		t.Errorf("a session with a turn was dismissed")
	}
	if got, want := table.Load(), (Load{Sessions: 1, Turns: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	table.end(s)
	if idle := table.Dismiss("t"); len(idle) != 1 || idle[0] != s || !s.Closed || table.Load() != (Load{}) {
		t.Errorf("dismissed %d, closed %v, load %+v", len(idle), s.Closed, table.Load())
	}
	if err := table.begin(s, 2); !fault.Is(err, fault.ProviderRuntimeDisconnected) || !errors.Is(err, fault.ErrUnsent) {
		t.Errorf("a turn in a session that was dismissed: %v", err)
	}
}

func TestATurnThatWasGivenUpLeavesItsProcessToNobodyUntilItIsOver(t *testing.T) {
	table := newTable()
	stuck, idle, busy := table.seat(t, "stuck", "c1"), table.seat(t, "idle", "c2"), table.seat(t, "busy", "c3")
	for turn, s := range map[uint64]*sitter{1: stuck, 2: busy} {
		if err := table.begin(s, turn); err != nil {
			t.Fatal(err)
		}
	}
	table.Abandon(stuck, 7) // another turn
	table.Abandon(idle, 0)
	if got := table.Load().Quarantined; got != 0 {
		t.Fatalf("%d turns are fenced off that do not run", got)
	}
	table.Abandon(stuck, 1)
	table.Abandon(stuck, 1)
	if got, want := table.Load(), (Load{Sessions: 3, Turns: 1, Quarantined: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	stuck.Out.Frame(thread.Frame{Kind: thread.FrameDelta})
	if len(stuck.heard) != 0 {
		t.Error("the thread hears of a turn that it has given up")
	}
	if table.Alive(idle) || table.Alive(stuck) || !table.Alive(busy) {
		t.Error("turns begin beside the fenced one, or one that runs is cut off")
	}
	over := table.Settled("stuck")
	if over == nil || table.Settled("busy") != nil {
		t.Fatal("the quarantine is not told")
	}
	table.end(stuck)
	<-over
	if got, want := table.Load(), (Load{Sessions: 2, Turns: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !table.Alive(idle) || table.Alive(stuck) {
		t.Error("the process is not free again, or the fenced session is")
	}
}

func TestASessionThatWasOpenedForATurnKeepsItsProcessForAMoment(t *testing.T) {
	table := newTable()
	s := table.seat(t, "t", "c")
	table.Mu.Lock()
	table.Reserve(s)
	table.Mu.Unlock()
	table.Drain()
	if !table.Alive(s) || table.Retire() || table.Load().Reserved != 1 {
		t.Error("the reservation does not hold")
	}
	table.now = table.now.Add(reservation)
	if table.Alive(s) || !table.Retire() {
		t.Error("the reservation does not end")
	}
	table.Mu.Lock()
	table.Reserve(s)
	table.Mu.Unlock()
	if table.Alive(s) {
		t.Error("a turn could begin in a process that ends")
	}
}

func TestWhoeverHearsThatASessionLivesHasAMomentToUseIt(t *testing.T) {
	table := newTable()
	s := table.seat(t, "t", "c")
	if !table.Alive(s) {
		t.Fatal("a fresh session is not alive")
	}
	table.Drain()
	if table.Retire() {
		t.Error("the process goes between the question and the turn")
	}
	if err := table.begin(s, 1); err != nil {
		t.Error(err)
	}
}

func TestASessionThatTheAgentForgotTakesNoTurnAndKeepsNoProcess(t *testing.T) {
	table := newTable()
	s := table.seat(t, "t", "c")
	table.Mu.Lock()
	table.Reserve(s)
	s.Lost = true
	table.Mu.Unlock()
	if table.Alive(s) || table.Load().Reserved != 0 || !table.Retire() {
		t.Error("it is alive, or reserved")
	}
}

func TestAnAgentThatCannotBeTalkedToTakesNoTurn(t *testing.T) {
	table := newTable()
	s := table.seat(t, "t", "c")
	table.down = errors.New("closed")
	if err := table.begin(s, 1); !fault.Is(err, fault.ProviderRuntimeDisconnected) || !errors.Is(err, fault.ErrUnsent) {
		t.Error(err)
	}
}

func TestAVacatedSeatIsFreeOnceItsTurnIsOver(t *testing.T) {
	table := newTable()
	idle, busy := table.seat(t, "idle", "c1"), table.seat(t, "busy", "c2")
	if err := table.begin(busy, 1); err != nil {
		t.Fatal(err)
	}
	if table.Vacate(idle) || !table.Vacate(busy) {
		t.Error("the idle one was fenced off, or the busy one was not")
	}
	if got, want := table.Load(), (Load{Sessions: 1, Quarantined: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	table.end(busy)
	if got := table.Load(); got != (Load{}) {
		t.Errorf("%+v is left", got)
	}
}

func TestThreadsHearOfALossBeforeTheEndOfTheirTurns(t *testing.T) {
	table := newTable()
	idle, busy, stuck := table.seat(t, "idle", "c1"), table.seat(t, "busy", "c2"), table.seat(t, "stuck", "c3")
	for turn, s := range map[uint64]*sitter{1: busy, 2: stuck} {
		if err := table.begin(s, turn); err != nil {
			t.Fatal(err)
		}
	}
	table.Abandon(stuck, 2)
	over := table.Settled("stuck")
	var ended []*sitter
	loss := fault.New(fault.ProviderRuntimeDisconnected, "It is gone.")
	tell := table.Lose(loss, func(s *sitter) { ended = append(ended, s) })
	<-over
	if len(ended) != 2 || len(busy.heard) != 0 {
		t.Errorf("%d turns were let go of; heard %v already", len(ended), busy.heard)
	}
	tell()
	for s, want := range map[*sitter][]thread.FrameKind{
		idle: {thread.FrameGone}, busy: {thread.FrameGone, thread.FrameFinished}, stuck: nil,
	} {
		if diff := cmp.Diff(want, s.heard); diff != "" {
			t.Errorf("%s: %s", s.ThreadID, diff)
		}
	}
	if got := table.Load(); got != (Load{}) {
		t.Errorf("%+v is left", got)
	}
	if err := table.begin(idle, 3); !errors.Is(err, loss) || !errors.Is(err, fault.ErrUnsent) {
		t.Error(err)
	}
	if err := table.Take(&sitter{Seat: Seat{ID: "c4"}}); !errors.Is(err, loss) {
		t.Error(err)
	}
}
