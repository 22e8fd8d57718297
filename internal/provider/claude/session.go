package claude

import (
	"context"
	"errors"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// session is the conversation of a process. What is not set once is guarded by the
// runtime's mutex, except a turn's text, which is the reader's.
type session struct {
	r      *Runtime
	out    *provider.Outlet
	policy provider.Policy

	turn       *turn
	quarantine chan struct{} // not nil: turn was given up; closed when the process is gone
	closed     bool
	opened     time.Time // when it was opened, or looked at, for a turn that has not begun; zero = begun
}

// reservation is how long a session that was opened for a turn is kept from making
// room for another thread's. It only has to cover what lies between the two steps,
// which is one commit.
const reservation = 5 * time.Second

var _ thread.Conversation = (*session)(nil)

// turn is one text and what the agent makes of it.
type turn struct {
	id        uint64
	ended     chan struct{} // closed when it is over or lost
	cancelled bool
	open      map[string]pending // the agent's requests that are not answered, by their id

	// The reader's.
	text    answerText
	told    bool   // a message was passed on
	errWord string // with which the agent marked what it said instead of an answer
}

// StartTurn writes the text. It refuses with THREAD_BUSY while a turn runs, and
// with PROVIDER_RUNTIME_DISCONNECTED when the session is not alive.
func (s *session) StartTurn(ctx context.Context, t thread.Turn) error {
	if err := ctx.Err(); err != nil {
		return errors.Join(fault.ErrUnsent, err)
	}
	begun, err := s.begin(t)
	if err != nil {
		return err
	}
	s.r.link.Changed()
	// What may have been written is never called unwritten: the context ends here.
	err = s.r.write(context.WithoutCancel(ctx), userLine{"user", userMessage{"user", ordinary(t.Text)}})
	if err == nil {
		return nil
	}
	s.r.mu.Lock()
	if s.turn == begun { // else the process is gone, and the turn with it
		s.turn = nil
		close(begun.ended)
	}
	s.r.mu.Unlock()
	s.r.link.Changed()
	return fault.CarryUnsent(err, failure(fault.ProviderRuntimeDisconnected, "turn", name+" takes no input any more.", err))
}

// begin claims the session for a turn.
func (s *session) begin(t thread.Turn) (*turn, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.turn != nil {
		return nil, failure(fault.ThreadBusy, "turn", "A turn runs in this conversation.", nil)
	}
	if !s.alive() {
		if s.r.loss != nil {
			return nil, s.r.loss.Unsent()
		}
		return nil, failure(fault.ProviderRuntimeDisconnected, "turn", "The conversation is not open any more.", nil).Unsent()
	}
	s.turn = &turn{id: t.ID, ended: make(chan struct{}), open: map[string]pending{}}
	s.opened = time.Time{}
	return s.turn, nil
}

// Alive reports whether turns can be started. A caller who hears yes has a moment
// to start one before the process makes room for another.
func (s *session) Alive() bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	alive := s.alive()
	if alive && s.turn == nil {
		s.opened = s.r.now()
	}
	return alive
}

// alive is Alive with the mutex held.
func (s *session) alive() bool {
	return !s.closed && s.quarantine == nil && s.r.loss == nil && !s.r.ending
}

// reserved reports whether the session waits for the turn that it was opened for.
// The mutex is held.
func (s *session) reserved() bool {
	return !s.opened.IsZero() && s.r.now().Sub(s.opened) < reservation
}

// hear passes on what the agent says. It runs on the reader.
func (s *session) hear(l *line) {
	s.r.mu.Lock()
	t := s.turn
	muted := s.quarantine != nil || s.closed
	cancelled := t != nil && t.cancelled
	s.r.mu.Unlock()
	if l.Type == "result" {
		s.over(t, l)
		return
	}
	if t == nil || muted {
		return // between turns the agent tells of things that concern nobody here
	}
	if l.ParentToolUseID.Kind() == '"' { // a sub-agent's own conversation
		s.out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: t.id})
		return
	}
	switch l.Type {
	case "stream_event":
		s.stream(t, l.Event, cancelled)
	case "assistant":
		s.block(t, l, cancelled)
	default:
		s.out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: t.id})
	}
}

// stream takes an event of the model's stream.
func (s *session) stream(t *turn, e event, cancelled bool) {
	switch {
	case e.Type == "content_block_delta" && e.Delta.Type == "text_delta" && e.Delta.Text != "":
		s.out.Frame(thread.Frame{Kind: thread.FrameDelta, Turn: t.id, Text: e.Delta.Text})
		return
	case e.Type == "message_start":
		t.text.begin(e.Message.ID)
	case e.Type == "message_stop":
		for _, text := range t.text.end() {
			s.message(t, text, cancelled)
		}
	}
	s.out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: t.id})
}

// block takes a whole block of an answer.
func (s *session) block(t *turn, l *line, cancelled bool) {
	s.out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: t.id})
	if kind := word(l.Error); kind != "" { // the agent's own words about a failure
		t.errWord = kind
		return
	}
	var m assistantMessage
	if err := jsonrpc.Unmarshal(l.Message, &m); err != nil {
		s.r.link.Log.Debug().Msg("a message of the agent cannot be read")
		return
	}
	if text := m.words(); text != "" {
		for _, complete := range t.text.add(m.ID, text) {
			s.message(t, complete, cancelled)
		}
	}
}

// message passes a complete message on. An interrupt makes the agent complete what
// it had only begun, which is none.
func (s *session) message(t *turn, text string, cancelled bool) {
	if text == "" || cancelled {
		return
	}
	t.told = true
	s.out.Frame(thread.Frame{Kind: thread.FrameMessage, Turn: t.id, Text: text})
}

// over ends a turn. It runs on the reader. The cost of a turn that the agent began
// by itself counts, too.
func (s *session) over(t *turn, l *line) {
	usage := thread.Frame{Kind: thread.FrameUsage, Usage: thread.UsageReport{Tokens: l.share(&s.r.counted)}}
	if t != nil {
		usage.Turn = t.id
	}
	if usage.Usage.Tokens > 0 {
		s.out.Frame(usage)
	}
	if t == nil {
		return
	}
	finished := thread.Frame{Kind: thread.FrameFinished, Turn: t.id}
	switch {
	case l.Subtype == "success" && !l.IsError:
		finished.Outcome = thread.OutcomeSuccess
		for _, text := range t.text.end() {
			s.message(t, text, false)
		}
		if !t.told {
			s.message(t, word(l.Result), false)
		}
	case t.wasCancelled(s.r) && l.Subtype == "error_during_execution":
		finished.Outcome = thread.OutcomeCancelled
	default:
		finished.Outcome, finished.Err = thread.OutcomeFailed, s.r.failed(l, t.errWord)
	}
	s.finish(t, finished)
}

// endedUnread ends the turn that runs, of whose result nothing could be read. It
// runs on the reader.
func (s *session) endedUnread() {
	s.r.mu.Lock()
	t := s.turn
	s.r.mu.Unlock()
	if t == nil {
		return
	}
	e := failure(fault.ProviderProtocolError, "turn", name+" ended the turn with more than can be read.", nil)
	s.finish(t, thread.Frame{Kind: thread.FrameFinished, Turn: t.id, Outcome: thread.OutcomeFailed, Err: e})
}

// finish passes on the end of a turn.
func (s *session) finish(t *turn, finished thread.Frame) {
	s.r.mu.Lock()
	if s.turn != t {
		s.r.mu.Unlock()
		return
	}
	s.turn = nil
	open := t.takeOpen()
	close(t.ended)
	s.r.mu.Unlock()
	s.r.dismiss(open, overText)
	s.out.Frame(finished)
	s.r.link.Changed()
}

func (t *turn) wasCancelled(r *Runtime) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.cancelled
}

// Cancel asks the agent to stop the turn. Open questions are answered first.
func (s *session) Cancel(_ context.Context, turnID uint64) error {
	s.r.mu.Lock()
	t := s.turn
	s.r.mu.Unlock()
	if t != nil && t.id == turnID {
		s.cancel(t)
	}
	return nil
}

// cancel interrupts a turn, once.
func (s *session) cancel(t *turn) {
	s.r.mu.Lock()
	if t.cancelled || s.turn != t {
		s.r.mu.Unlock()
		return
	}
	t.cancelled = true
	open := t.takeOpen()
	s.r.mu.Unlock()
	s.r.dismiss(open, cancelledText)
	s.interrupt(t)
	s.r.spawn(func() { s.insist(t) })
}

// interrupt asks the agent to stop a turn that is not over. An interrupt names no
// turn, so it is queued with the mutex held: behind the text of a later turn it would
// stop that one.
func (s *session) interrupt(t *turn) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.turn == t {
		s.r.post(controlLine{"control_request", s.r.requestID(), plainRequest{"interrupt"}})
	}
}

// insist repeats the interrupt until the turn is over: one that meets an agent
// which has not begun yet stops nothing.
func (s *session) insist(t *turn) {
	again := time.NewTicker(s.r.agent.Interrupt)
	defer again.Stop()
	for {
		select {
		case <-t.ended:
			return
		case <-s.r.broken:
			return
		case <-again.C:
			s.interrupt(t)
		}
	}
}

// Abandon gives up a turn that did not end: its process goes.
func (s *session) Abandon(turnID uint64) {
	s.r.mu.Lock()
	fenced := s.turn != nil && s.turn.id == turnID && s.quarantine == nil && s.r.loss == nil
	if fenced {
		s.quarantine = make(chan struct{})
	}
	s.r.mu.Unlock()
	if fenced {
		s.out.Shut()
		s.r.link.Changed()
	}
}

// Close ends the session, and with it the process.
func (s *session) Close(context.Context) error {
	s.r.mu.Lock()
	s.closed = true
	s.r.mu.Unlock()
	s.out.Shut()
	s.r.link.Changed()
	return nil
}
