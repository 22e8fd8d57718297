package acp

import (
	"context"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// session is one conversation. What is not set once is guarded by the runtime's
// mutex, except a turn's text and fault, which are the reader's.
type session struct {
	provider.Seat
	r       *Runtime
	policy  provider.Policy
	servers []mcpServer // of tools, that the agent is told of
	native  bool        // the thread's tools are among them

	preamble  string // host instructions for the next prompt; "" = sent
	copyPath  string // of the file that holds them too; "" = none
	turn      *turn  // whose prompt is not answered
	replaying bool   // its history comes in
}

var _ thread.Conversation = (*session)(nil)

// turn is one prompt.
type turn struct {
	id        uint64
	text      message
	fault     *fault.Error // why it is given up; its prompt is not answered yet
	cancelled bool
	questions map[jsonrpc.ID]struct{}  // the agent's, that are not answered
	announced map[string]*announcement // tool calls that are not over, by the agent's id
	news      chan struct{}            // closed, and replaced, when announced has something new
	ended     chan struct{}            // closed when the prompt is answered or lost
}

// StartTurn writes the prompt. It refuses with THREAD_BUSY while a turn runs, and
// with PROVIDER_RUNTIME_DISCONNECTED when the session is not alive.
func (s *session) StartTurn(ctx context.Context, t thread.Turn) error {
	begun, text, err := s.begin(t)
	if err != nil {
		return err
	}
	params := promptParams{s.ID, []promptBlock{{Type: "text", Text: text}}}
	err = s.r.conn.Go(ctx, "session/prompt", params, func(result jsontext.Value, err error) {
		s.answered(begun, result, err)
	})
	s.r.Mu.Lock()
	if err == nil {
		s.preamble = ""
		s.r.Mu.Unlock()
		return nil
	}
	if s.turn == begun { // else the process is gone, and the turn with it
		s.forget(begun)
	}
	s.r.Mu.Unlock()
	s.r.link.Changed()
	return fault.CarryUnsent(err, s.r.failure("session/prompt", err))
}

// begin claims the session for a turn.
func (s *session) begin(t thread.Turn) (*turn, string, error) {
	s.r.Mu.Lock()
	defer s.r.Mu.Unlock()
	if err := s.r.Begin(s, t.ID, "session/prompt"); err != nil {
		return nil, "", err
	}
	text := ordinary(t.Text)
	if s.preamble != "" {
		text = withInstructions(s.preamble, s.copyPath, t.Text)
	}
	s.turn = &turn{
		id:        t.ID,
		text:      message{gap: s.r.flavour.RetryGap, limit: s.r.flavour.MessageLimit},
		questions: map[jsonrpc.ID]struct{}{},
		announced: map[string]*announcement{},
		news:      make(chan struct{}),
		ended:     make(chan struct{}),
	}
	return s.turn, text, nil
}

// forget takes the turn out of the session. The mutex is held.
func (s *session) forget(t *turn) {
	s.turn = nil
	s.r.End(s)
	close(t.ended)
}

// Alive reports whether turns can be started.
func (s *session) Alive() bool { return s.r.Alive(s) }

// muted reports whether what the agent says in the session is not passed on. The mutex
// is held.
func (s *session) muted() bool { return s.replaying || s.Muted() }

// update passes on what the agent says. It runs on the reader.
func (s *session) update(t *turn, u update) {
	if t == nil {
		s.Out.Frame(thread.Frame{Kind: thread.FrameActivity})
		return
	}
	if t.fault != nil { // no sign of life either: an agent that goes on is given up
		return
	}
	switch u.kind {
	case chunkUpdate:
		if !t.text.belongs(u.messageID) {
			s.closeMessage(t)
		}
		if u.text != "" {
			if !t.text.add(u.messageID, u.text, s.r.Now()) {
				s.giveUp(t, s.r.fault(fault.ProviderProtocolError, "session/prompt",
					s.r.flavour.Provider.Name()+" sent a message without end; the turn is stopped.", nil).
					With("limitBytes", s.r.flavour.MessageLimit))
				return
			}
			s.Out.Frame(thread.Frame{Kind: thread.FrameDelta, Turn: t.id, Text: u.text})
			return
		}
	case messageUpdate: // the whole of what the chunks began
		t.text.take()
		if u.text != "" {
			s.Out.Frame(thread.Frame{Kind: thread.FrameMessage, Turn: t.id, Text: u.text})
			return
		}
	case toolUpdate:
		s.closeMessage(t)
	}
	s.Out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: t.id})
}

// giveUp ends a turn whose message cannot be told whole: the agent is asked to stop it,
// and its answer to that ends the turn.
func (s *session) giveUp(t *turn, why *fault.Error) {
	t.text.take()
	t.fault = why
	if err := s.cancel(t); err != nil {
		s.r.link.Log.Debug().Err(err).Msg("a turn that went wrong could not be cancelled")
	}
}

// closeMessage passes on the message that the chunks made up.
func (s *session) closeMessage(t *turn) {
	if text := t.text.take(); text != "" {
		s.Out.Frame(thread.Frame{Kind: thread.FrameMessage, Turn: t.id, Text: text})
	}
}

// answered ends a turn: its prompt was answered. It runs on the reader.
func (s *session) answered(t *turn, result jsontext.Value, err error) {
	s.r.Mu.Lock()
	if s.turn != t { // lost with the process
		s.r.Mu.Unlock()
		return
	}
	fenced := s.Fenced()
	open := takeQuestions(t)
	cancelled := t.cancelled
	s.forget(t)
	s.r.Mu.Unlock()
	for _, id := range open {
		s.r.answer(id, outcomeResult{cancelledOutcome})
	}
	if !fenced {
		s.finish(t, cancelled, result, err)
	} else {
		s.r.release(s.ID)
	}
	s.r.link.Changed()
}

// finish passes on the end of a turn.
func (s *session) finish(t *turn, cancelled bool, result jsontext.Value, err error) {
	finished := thread.Frame{Kind: thread.FrameFinished, Turn: t.id}
	var usage uint64
	if err != nil {
		finished.Outcome, finished.Err = s.failed(cancelled, err)
	} else {
		finished.Outcome, finished.Err, usage = s.r.stopped(result)
	}
	if t.fault != nil {
		finished.Outcome, finished.Err = thread.OutcomeFailed, t.fault
	}
	if finished.Outcome == thread.OutcomeSuccess {
		s.closeMessage(t)
	}
	if usage > 0 {
		s.Out.Frame(thread.Frame{Kind: thread.FrameUsage, Turn: t.id, Usage: thread.UsageReport{Tokens: usage}})
	}
	s.Out.Frame(finished)
}

// failed reads an error that a prompt was answered with.
func (s *session) failed(cancelled bool, err error) (thread.Outcome, *fault.Error) {
	if answer, ok := err.(*jsonrpc.Error); ok && cancelled && answer.Code == codeRequestCancelled {
		return thread.OutcomeCancelled, nil
	}
	e := fault.From(s.r.failure("session/prompt", err))
	if e.Code == fault.ProviderSessionLost {
		s.r.Mu.Lock()
		s.Closed = true // the next turn opens another
		s.r.Mu.Unlock()
	}
	return thread.OutcomeFailed, e
}

// stopped reads a prompt's answer.
func (r *Runtime) stopped(result jsontext.Value) (thread.Outcome, *fault.Error, uint64) {
	var p promptResult
	if result.Kind() == '{' {
		if err := jsonrpc.Unmarshal(result, &p); err != nil {
			p = promptResult{}
		}
	}
	usage := uint64(0)
	if r.flavour.countsUsage {
		usage, _ = strconv.ParseUint(string(p.Usage.TotalTokens), 10, 63) // anything but a whole number is no figure
	}
	name := r.flavour.Provider.Name()
	switch reason := jsonrpc.Text(p.StopReason); reason {
	case "end_turn":
		return thread.OutcomeSuccess, nil, usage
	case "cancelled":
		return thread.OutcomeCancelled, nil, usage
	case "":
		return thread.OutcomeFailed, r.fault(fault.ProviderProtocolError, "session/prompt", name+" ended the turn without a reason.", nil), usage
	default:
		return thread.OutcomeFailed, r.fault(fault.ProviderRequestFailed, "session/prompt",
			name+" ended the turn without success ("+stopWords(reason)+").", nil).With("stopReason", reason), usage
	}
}

func stopWords(reason string) string {
	switch reason {
	case "max_tokens":
		return "the model's limit of tokens was reached"
	case "max_turn_requests":
		return "the limit of model requests in one turn was reached"
	case "refusal":
		return "the model refused"
	}
	return reason
}

// Cancel asks the agent to stop the turn. Open questions are answered first.
func (s *session) Cancel(_ context.Context, turnID uint64) error {
	s.r.Mu.Lock()
	t := s.turn
	if t == nil || t.id != turnID {
		s.r.Mu.Unlock()
		return nil
	}
	s.r.Mu.Unlock()
	return s.cancel(t)
}

func (s *session) cancel(t *turn) error {
	s.r.Mu.Lock()
	if t.cancelled || s.turn != t {
		s.r.Mu.Unlock()
		return nil
	}
	t.cancelled = true
	open := takeQuestions(t)
	s.r.Mu.Unlock()
	for _, id := range open {
		s.r.answer(id, outcomeResult{cancelledOutcome})
	}
	if err := s.r.conn.Notify("session/cancel", sessionParams{s.ID}); err != nil {
		return s.r.failure("session/cancel", err)
	}
	return nil
}

// takeQuestions returns the turn's open questions and closes them. The mutex is
// held.
func takeQuestions(t *turn) []jsonrpc.ID {
	var open []jsonrpc.ID
	for id := range t.questions {
		open = append(open, id)
	}
	clear(t.questions)
	return open
}

// AnswerTool has nothing to answer: the protocol has no tool calls of its own.
func (s *session) AnswerTool(context.Context, string, thread.ToolAnswer) error {
	return s.r.fault(fault.ProviderUnsupported, "tool", s.r.flavour.Provider.Name()+" does not call tools over this channel.", nil)
}

// Abandon fences off a turn that did not end.
func (s *session) Abandon(turnID uint64) { s.r.Abandon(s, turnID) }

// Close ends the session in the agent, best effort. With a turn still running it
// cancels that and fences it off.
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
		_ = s.cancel(t) // a lost process says so elsewhere
	}
	if s.r.Vacate(s) { // the process may be stopped as soon as the turn has ended
		s.r.release(s.ID)
		return nil
	}
	return s.r.closeSession(ctx, s.ID)
}

// release frees a session in the agent, where it can, without waiting.
func (r *Runtime) release(id string) {
	if !r.caps.canClose() {
		return
	}
	if err := r.conn.Tell("session/close", sessionParams{id}); err != nil {
		r.link.Log.Debug().Err(err).Msg("an old session could not be closed")
	}
}

// closeSession frees a session in the agent, where it can.
func (r *Runtime) closeSession(ctx context.Context, id string) error {
	if !r.caps.canClose() {
		return nil
	}
	return r.call(ctx, r.flavour.Control, "session/close", sessionParams{id}, nil)
}
