package codex

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// session is one conversation. What is not set once is guarded by the runtime's
// mutex, except what a turn has told, which is the reader's.
type session struct {
	provider.Seat
	r       *Runtime
	efforts efforts
	cwd     string
	sandbox sandboxPolicy
	tools   thread.ToolNames

	turn *turn
	past string // the agent's id of the turn before
}

var _ thread.Conversation = (*session)(nil)

// turn is one text and what the agent makes of it.
type turn struct {
	id        uint64
	agentID   string        // "" = not known yet
	accepted  chan struct{} // closed when the agent has taken it, or refused
	ended     chan struct{} // closed when it is over or lost
	cancelled bool
	calls     map[string][]jsonrpc.ID // of frontend tools that are not answered, by call id
	told      map[string]bool         // messages that were passed on, by item id
}

// StartTurn writes the text and waits a little for the agent to take it. It
// refuses with THREAD_BUSY while a turn runs, and with
// PROVIDER_RUNTIME_DISCONNECTED when the session is not alive. What goes wrong
// once the text is written comes as the turn's end.
func (s *session) StartTurn(ctx context.Context, t thread.Turn) error {
	begun, err := s.begin(t)
	if err != nil {
		return err
	}
	params := turnParams{
		ThreadID: s.ID, Input: []inputItem{{"text", t.Text}}, Cwd: s.cwd,
		Model: s.efforts.model, Effort: s.efforts.reasoning, ApprovalPolicy: never, SandboxPolicy: s.sandbox,
	}
	err = s.r.conn.Go(ctx, "turn/start", params, func(result jsontext.Value, err error) { s.answered(begun, result, err) })
	if err != nil {
		s.r.Mu.Lock()
		if s.turn == begun { // else the process is gone, and the turn with it
			s.forget(begun)
		}
		s.r.Mu.Unlock()
		s.r.link.Changed()
		return fault.CarryUnsent(err, s.r.failure("turn/start", err))
	}
	timer := time.NewTimer(s.r.agent.Accept)
	defer timer.Stop()
	select {
	case <-begun.accepted:
	case <-begun.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// begin claims the session for a turn.
func (s *session) begin(t thread.Turn) (*turn, error) {
	s.r.Mu.Lock()
	defer s.r.Mu.Unlock()
	if err := s.r.Begin(s, t.ID, "turn/start"); err != nil {
		return nil, err
	}
	s.turn = &turn{
		id: t.ID, accepted: make(chan struct{}), ended: make(chan struct{}),
		calls: map[string][]jsonrpc.ID{}, told: map[string]bool{},
	}
	return s.turn, nil
}

// forget takes the turn out of the session. The mutex is held.
func (s *session) forget(t *turn) {
	s.turn = nil
	s.past = t.agentID
	s.r.End(s)
	close(t.ended)
}

// Alive reports whether turns can be started.
func (s *session) Alive() bool { return s.r.Alive(s) }

// owner returns the running turn if a notification belongs to it, else nil: what is told of
// an older one, as the usage after a resume, does not. The mutex is held.
func (s *session) owner(n notice) *turn {
	id := n.TurnID
	if id == "" {
		id = n.Turn.ID
	}
	if s.turn == nil || id == "" || s.turn.agentID != id {
		return nil
	}
	return s.turn
}

// take notes the agent's id of a turn. The mutex is held.
func (s *session) take(t *turn, id string) {
	if t.agentID != "" {
		return
	}
	t.agentID = id
	close(t.accepted)
}

// answered hears the agent's answer to the request for a turn.
func (s *session) answered(t *turn, answer jsontext.Value, err error) {
	var result turnResult
	if err == nil {
		err = jsonrpc.Unmarshal(answer, &result)
		if err == nil && result.Turn.ID != "" {
			s.r.Mu.Lock()
			s.take(t, result.Turn.ID)
			s.r.Mu.Unlock()
			return
		}
	}
	s.r.Mu.Lock()
	known := t.agentID != ""
	s.r.Mu.Unlock()
	if known { // the agent works on it, whatever became of its answer
		return
	}
	if errors.Is(err, jsonrpc.ErrTooLong) {
		s.r.spawn(func() { s.awaitName(t) })
		return
	}
	e := fault.From(s.r.failure("turn/start", err))
	if answer, refused := err.(*jsonrpc.Error); refused && classify(answer) == unknownSession {
		s.r.Mu.Lock()
		s.Lost = true // the next turn opens it again
		s.r.Mu.Unlock()
	}
	if err == nil {
		e = s.r.fault(fault.ProviderProtocolError, "turn/start", name+" began a turn without an id.", nil)
	}
	s.finish(t, thread.OutcomeFailed, e)
}

// awaitName gives up a turn that the agent has begun, with an answer that was too
// long to name it, unless a notification names it soon: nothing that the agent does
// in it could be heard, nor could it be interrupted.
func (s *session) awaitName(t *turn) {
	limit := time.NewTimer(s.r.agent.Control)
	defer limit.Stop()
	select {
	case <-t.accepted:
	case <-t.ended:
	case <-s.r.conn.Done():
	case <-limit.C:
		s.r.Fail(s, t.id, fault.From(s.r.failure("turn/start", jsonrpc.ErrTooLong)))
		s.cancel(t) // it may still be named
	}
}

// hear passes on what the agent says. It runs on the reader.
func (s *session) hear(method string, t *turn, n notice) {
	if method == "thread/tokenUsage/updated" {
		s.usage(t, n)
		return
	}
	if t == nil || s.muted() {
		return
	}
	switch {
	case method == "item/agentMessage/delta" && n.Delta != "":
		s.Out.Frame(thread.Frame{Kind: thread.FrameDelta, Turn: t.id, Text: n.Delta})
	case method == "item/completed" && n.Item.Type == "agentMessage":
		s.message(t, n.Item)
	default:
		s.Out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: t.id})
	}
}

func (s *session) muted() bool {
	s.r.Mu.Lock()
	defer s.r.Mu.Unlock()
	return s.Muted()
}

// message passes a complete message on, once.
func (s *session) message(t *turn, m item) {
	if m.Text == "" || t.told[m.ID] {
		return
	}
	t.told[m.ID] = true
	s.Out.Frame(thread.Frame{Kind: thread.FrameMessage, Turn: t.id, Text: m.Text})
}

// usage passes on the conversation's total.
func (s *session) usage(t *turn, n notice) {
	tokens, err := strconv.ParseUint(string(n.TokenUsage.Total.TotalTokens), 10, 63) // anything but a whole number is no figure
	if err != nil || s.muted() {
		return
	}
	f := thread.Frame{Kind: thread.FrameUsage, Usage: thread.UsageReport{Tokens: tokens, Cumulative: true}}
	if t != nil {
		f.Turn = t.id
	}
	s.Out.Frame(f)
}

// completed ends a turn of which the agent says that it is over. It runs on the
// reader.
func (s *session) completed(t *turn, n notice) {
	switch n.Turn.Status {
	case "completed":
		if !s.muted() {
			for _, m := range n.Turn.Items {
				if m.Type == "agentMessage" {
					s.message(t, m)
				}
			}
		}
		s.finish(t, thread.OutcomeSuccess, nil)
	case "interrupted":
		s.finish(t, thread.OutcomeCancelled, nil)
	case "failed":
		s.finish(t, thread.OutcomeFailed, s.r.turnFailed(n.Turn.Error))
	default:
		s.finish(t, thread.OutcomeFailed, s.r.fault(fault.ProviderProtocolError, "turn",
			name+" ended the turn in a state that makes no sense.", nil).With("status", n.Turn.Status))
	}
}

// finish passes on the end of a turn. It runs on the reader.
func (s *session) finish(t *turn, outcome thread.Outcome, e *fault.Error) {
	s.r.Mu.Lock()
	if s.turn != t { // lost with the process
		s.r.Mu.Unlock()
		return
	}
	fenced, shut := s.Fenced(), s.Closed
	open := takeCalls(t)
	cancelled := t.cancelled
	s.forget(t)
	s.r.Mu.Unlock()
	s.r.answerCalls(open, overText)
	if cancelled || fenced {
		// An interrupt leaves the commands that ran going on in the background. The
		// request goes out before any later turn's.
		s.r.tell("thread/backgroundTerminals/clean", threadParams{s.ID})
	}
	// A fenced session stays subscribed: its thread may be opening it again.
	if !fenced && !shut {
		s.Out.Frame(thread.Frame{Kind: thread.FrameFinished, Turn: t.id, Outcome: outcome, Err: e})
	}
	s.r.link.Changed()
}

// Cancel asks the agent to stop the turn. Open tool calls are answered first.
func (s *session) Cancel(_ context.Context, turnID uint64) error {
	s.r.Mu.Lock()
	t := s.turn
	s.r.Mu.Unlock()
	if t != nil && t.id == turnID {
		s.cancel(t)
	}
	return nil
}

// cancel interrupts a turn, once.
func (s *session) cancel(t *turn) {
	s.r.Mu.Lock()
	if t.cancelled || s.turn != t {
		s.r.Mu.Unlock()
		return
	}
	t.cancelled = true
	open := takeCalls(t)
	s.r.Mu.Unlock()
	s.r.answerCalls(open, cancelledText)
	s.r.spawn(func() { s.interrupt(t) })
}

// interrupt asks the agent to stop a turn until it is over: asked too early, the
// agent knows of no turn yet.
func (s *session) interrupt(t *turn) {
	select {
	case <-t.accepted:
	case <-t.ended:
		return
	case <-s.r.conn.Done():
		return
	}
	s.r.Mu.Lock()
	params := interruptParams{s.ID, t.agentID}
	s.r.Mu.Unlock()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-t.ended:
			return
		case <-s.r.conn.Done():
			return
		case <-pause.C:
		}
		err := s.r.conn.Call(context.Background(), s.r.agent.Control, "turn/interrupt", params, nil)
		if err == nil {
			return
		}
		s.r.link.Log.Debug().Err(err).Msg("an interrupt was not taken")
		pause.Reset(s.r.agent.Interrupt)
	}
}

// Abandon fences off a turn that did not end.
func (s *session) Abandon(turnID uint64) { s.r.Abandon(s, turnID) }

// Close ends the session in the agent, best effort. With a turn still running it
// interrupts that and fences it off.
func (s *session) Close(ctx context.Context) error {
	s.r.Mu.Lock()
	if s.Closed {
		s.r.Mu.Unlock()
		return nil
	}
	t, gone := s.turn, s.r.Loss != nil
	s.r.Mu.Unlock()
	s.Out.Shut()
	if gone {
		return nil
	}
	if t != nil {
		s.cancel(t)
	}
	if s.r.Vacate(s) {
		return nil
	}
	for _, method := range []string{"thread/backgroundTerminals/clean", "thread/unsubscribe"} {
		if err := s.r.conn.Call(ctx, s.r.agent.Control, method, threadParams{s.ID}, nil); err != nil {
			return s.r.failure(method, err)
		}
	}
	return nil
}
