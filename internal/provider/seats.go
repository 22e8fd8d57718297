package provider

import (
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// reservation is how long a conversation that was opened for a turn may take that
// turn although its process shall go. It only has to cover what lies between the
// two steps, which is one commit.
const reservation = 5 * time.Second

// Seat is one thread's conversation in a process that carries those of several. An
// adapter's session embeds it. What is not set once is guarded by the mutex of the
// [Seats].
type Seat struct {
	ID       string // the agent's, of the conversation
	ThreadID string
	Out      *Outlet

	Closed bool // nothing is told any more
	Lost   bool // the agent does not know the conversation any more; the next turn opens one

	turn       uint64        // the thread's number of the turn that runs; 0 = none
	quarantine chan struct{} // not nil: the turn was given up; closed when it is over
	opened     time.Time     // when it was opened, or looked at, for a turn that has not begun; zero = begun
}

// Place returns the seat itself.
func (s *Seat) Place() *Seat { return s }

// Fenced reports whether the seat's turn was given up and is not over.
func (s *Seat) Fenced() bool { return s.quarantine != nil }

// Muted reports whether what the agent says in the conversation is not passed on.
func (s *Seat) Muted() bool { return s.Closed || s.Fenced() }

// Seated is a session that embeds a [Seat].
type Seated interface {
	comparable
	Place() *Seat
}

// Seats are the conversations of one process, which runs a turn, which is fenced off,
// and whether more turns may begin. It is the part of a [Runtime] that is the same
// for all agents which carry several threads; an adapter's runtime embeds it.
//
// Mu guards the seats and what adapters keep of their sessions and turns. Methods
// whose comment says so are called with it held, the others without.
type Seats[S Seated] struct {
	Mu    sync.Mutex
	Taken map[string]S // by the agent's id of the conversation
	Loss  *fault.Error // set when the process is gone

	Faults Faults
	Now    func() time.Time

	changed func()       // a session or turn came or went
	down    func() error // why the agent cannot be talked to any more; nil = it can

	turns       int // that run and are not fenced off
	quarantined int
	draining    bool
	ending      bool // no turn begins any more
}

// NewSeats returns the seats of a process that was just started, all of them free.
// down tells why the agent cannot be talked to any more, nil while it can.
func NewSeats[S Seated](l Link, down func() error, f Faults) *Seats[S] {
	return &Seats[S]{Taken: map[string]S{}, Faults: f, Now: time.Now, changed: l.Changed, down: down}
}

// Take gives a session its seat, so that frames find it. Errors: THREAD_BUSY while
// another turn runs in the conversation, and why the process is gone.
func (t *Seats[S]) Take(s S) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.Loss != nil {
		return t.Loss
	}
	id := s.Place().ID
	if _, taken := t.Taken[id]; taken {
		return t.Faults.New(fault.ThreadBusy, "session", "Another turn still runs in this conversation.", nil)
	}
	t.Taken[id] = s
	return nil
}

// Leave takes a session's seat away.
func (t *Seats[S]) Leave(s S) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.remove(s)
}

func (t *Seats[S]) remove(s S) {
	if id := s.Place().ID; t.Taken[id] == s {
		delete(t.Taken, id)
	}
}

// Dismiss takes away the seats of a thread in which no turn runs and returns their
// sessions.
func (t *Seats[S]) Dismiss(threadID string) []S {
	t.Mu.Lock()
	var idle []S
	for id, s := range t.Taken {
		if p := s.Place(); p.ThreadID == threadID && p.turn == 0 {
			p.Closed = true
			delete(t.Taken, id)
			idle = append(idle, s)
		}
	}
	t.Mu.Unlock()
	if len(idle) > 0 {
		t.changed()
	}
	return idle
}

// Reserve keeps the process for the turn for which a session was opened. Mu is held.
func (t *Seats[S]) Reserve(s S) { s.Place().opened = t.Now() }

func (t *Seats[S]) reserved(p *Seat) bool {
	return !p.Lost && !p.opened.IsZero() && t.Now().Sub(p.opened) < reservation
}

// reservations counts the sessions that wait for the turn they were opened for. Mu
// is held.
func (t *Seats[S]) reservations() int {
	n := 0
	for _, s := range t.Taken {
		if t.reserved(s.Place()) {
			n++
		}
	}
	return n
}

// Alive reports whether turns can be started in a session. A caller who hears yes
// has a moment to start one, even if the process is to go meanwhile.
func (t *Seats[S]) Alive(s S) bool {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	p := s.Place()
	alive := t.alive(p)
	if alive && p.turn == 0 {
		t.Reserve(s)
	}
	return alive
}

// alive is Alive with Mu held. A process in which another thread's turn does not end
// is left alone.
func (t *Seats[S]) alive(p *Seat) bool {
	if p.Muted() || p.Lost || t.Loss != nil || t.down() != nil {
		return false
	}
	if p.turn != 0 {
		return true
	}
	return !t.ending && (t.reserved(p) || (!t.draining && t.quarantined == 0))
}

// Begin claims a session for a turn. Mu is held. Errors: THREAD_BUSY while one runs,
// PROVIDER_RUNTIME_DISCONNECTED or why the process is gone, marked with
// [fault.ErrUnsent].
func (t *Seats[S]) Begin(s S, turn uint64, operation string) error {
	p := s.Place()
	if p.turn != 0 {
		return t.Faults.New(fault.ThreadBusy, operation, "A turn runs in this conversation.", nil)
	}
	if !t.alive(p) {
		e := t.Loss
		if e == nil {
			e = t.Faults.New(fault.ProviderRuntimeDisconnected, operation, "The conversation is not open any more.", nil)
		}
		return e.Unsent()
	}
	p.turn, p.opened = turn, time.Time{}
	t.turns++
	return nil
}

// End takes a turn out of its seat. One that was fenced off takes the seat with it.
// Mu is held.
func (t *Seats[S]) End(s S) {
	p := s.Place()
	p.turn = 0
	if p.quarantine == nil {
		t.turns--
		return
	}
	t.quarantined--
	close(p.quarantine)
	p.quarantine = nil
	p.Closed = true
	t.remove(s)
}

// Abandon fences off a turn that did not end: nothing that the agent still says of
// it reaches the thread.
func (t *Seats[S]) Abandon(s S, turn uint64) { t.abandon(s.Place(), turn, nil) }

// Fail ends a turn for its thread and fences it off: the agent may go on with it.
func (t *Seats[S]) Fail(s S, turn uint64, e *fault.Error) {
	t.abandon(s.Place(), turn, &thread.Frame{Kind: thread.FrameFinished, Turn: turn, Outcome: thread.OutcomeFailed, Err: e})
}

// abandon fences a turn off. Its last frame is told, if there is one.
func (t *Seats[S]) abandon(p *Seat, turn uint64, last *thread.Frame) {
	t.Mu.Lock()
	fenced := turn != 0 && p.turn == turn && t.fence(p)
	t.Mu.Unlock()
	if !fenced {
		return
	}
	if last != nil {
		p.Out.Frame(*last)
	}
	p.Out.Shut()
	t.changed()
}

// fence puts a seat with a turn into quarantine. Mu is held.
func (t *Seats[S]) fence(p *Seat) bool {
	if p.quarantine != nil || t.Loss != nil {
		return false
	}
	p.quarantine = make(chan struct{})
	t.turns--
	t.quarantined++
	return true
}

// Vacate closes a session's seat and takes it away. If a turn runs in it, that is fenced off
// instead, and its end does the rest.
func (t *Seats[S]) Vacate(s S) (fenced bool) {
	t.Mu.Lock()
	p := s.Place()
	fenced = p.turn != 0
	if fenced {
		t.fence(p)
	} else {
		p.Closed = true
		t.remove(s)
	}
	t.Mu.Unlock()
	t.changed()
	return fenced
}

// Running returns the sessions with a turn that is not fenced off. Mu is held.
func (t *Seats[S]) Running() []S {
	var running []S
	for _, s := range t.Taken {
		if p := s.Place(); p.turn != 0 && !p.Fenced() {
			running = append(running, s)
		}
	}
	return running
}

// Lose empties the table, since the process is gone. For each session with a turn it
// calls end, with Mu held, which lets go of what the adapter keeps of that turn. The
// threads hear of the loss from tell.
func (t *Seats[S]) Lose(loss *fault.Error, end func(S)) (tell func()) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	turns := make(map[*Seat]uint64, len(t.Taken))
	for _, s := range t.Taken {
		p := s.Place()
		turns[p] = p.turn
		if p.turn != 0 {
			end(s)
		}
		if p.quarantine != nil {
			close(p.quarantine)
		}
		p.Closed, p.turn = true, 0
	}
	t.Loss, t.Taken = loss, map[string]S{}
	t.turns, t.quarantined = 0, 0
	return func() {
		for p, turn := range turns {
			// The thread first hears that the runtime is gone: the terminal frame may
			// let it begin another turn, which a late loss must not touch.
			p.Out.Frame(thread.Frame{Kind: thread.FrameGone, Err: loss})
			if turn != 0 {
				p.Out.Frame(thread.Frame{Kind: thread.FrameFinished, Turn: turn, Outcome: thread.OutcomeFailed, Err: loss})
			}
			p.Out.Shut()
		}
	}
}

// Load tells what the process carries.
func (t *Seats[S]) Load() Load {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return Load{Sessions: len(t.Taken), Turns: t.turns, Reserved: t.reservations(), Quarantined: t.quarantined}
}

// Retire reports whether no turn runs or is about to, and lets none begin from then
// on.
func (t *Seats[S]) Retire() bool {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.turns == 0 && t.reservations() == 0 {
		t.ending = true
	}
	return t.ending
}

// Drain makes idle conversations not alive.
func (t *Seats[S]) Drain() {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.draining = true
}

// Settled returns a channel that is closed when the thread's quarantine here is
// over, or nil if there is none.
func (t *Seats[S]) Settled(threadID string) <-chan struct{} {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	for _, s := range t.Taken {
		if p := s.Place(); p.ThreadID == threadID && p.quarantine != nil {
			return p.quarantine
		}
	}
	return nil
}
