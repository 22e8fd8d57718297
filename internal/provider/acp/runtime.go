package acp

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Runtime is the protocol side of one agent process.
type Runtime struct {
	flavour Flavour
	link    provider.Link
	conn    *jsonrpc.Conn
	tasks   sync.WaitGroup // judgements of permission questions

	caps        agentCapabilities   // set by Handshake
	authMethods []authMethod        // set by Handshake
	auth        *semaphore.Weighted // held by the one who logs in
	loggedIn    bool                // guarded by auth

	// Its mutex guards what follows, too.
	*provider.Seats[*session]
	attaching map[*session]struct{}
	strangers int // frames for sessions that are not ours
}

var _ provider.Runtime = (*Runtime)(nil)

func newRuntime(f Flavour, l provider.Link) *Runtime {
	r := &Runtime{flavour: f, link: l, auth: semaphore.NewWeighted(1), attaching: map[*session]struct{}{}}
	r.conn = jsonrpc.New(jsonrpc.Config{Write: l.Write, Post: l.Post, Handler: r, Silence: f.Silence})
	r.Seats = provider.NewSeats[*session](l, r.conn.Err,
		provider.Faults{Provider: f.Provider, Protocol: "acp", LoginCommand: f.LoginCommand, Redactor: l.Redactor})
	return r
}

// Feed takes a frame from the agent.
func (r *Runtime) Feed(frame []byte) {
	if u, ok := decodeChunk(frame); ok {
		r.conn.Heard()
		r.updated(u)
		return
	}
	r.conn.Feed(frame)
}

// Skipped hears of a frame that was too long. If it was an answer its request
// fails; a turn goes on without an update, unless that held text of the answer.
func (r *Runtime) Skipped(head, tail []byte) {
	r.conn.Skipped(head, tail)
	told := jsonrpc.Peek(head)
	switch kindOf(jsonrpc.Text(told["/params/update/sessionUpdate"])) {
	case chunkUpdate, messageUpdate:
	default:
		return
	}
	r.Mu.Lock()
	s := r.Taken[jsonrpc.Text(told["/params/sessionId"])]
	if s == nil || s.turn == nil || s.muted() {
		r.Mu.Unlock()
		return
	}
	t := s.turn
	r.Mu.Unlock()
	if t.fault == nil {
		s.giveUp(t, r.fault(fault.ProviderProtocolError, "session/prompt",
			r.flavour.Provider.Name()+" sent more of a message at once than can be read; the turn is stopped.", nil))
	}
}

// Broken is closed when the agent cannot be talked to any more.
func (r *Runtime) Broken() <-chan struct{} { return r.conn.Done() }

// Handshake greets the agent. Errors: PROVIDER_RUNTIME_START_FAILED.
func (r *Runtime) Handshake(ctx context.Context) error {
	params := initializeParams{
		ProtocolVersion:    protocolVersion,
		ClientCapabilities: clientCapabilities{Meta: r.flavour.meta},
		ClientInfo:         clientInfo{Name: "pedelec", Title: "Pedelec", Version: "1"},
	}
	var result initializeResult
	if err := r.conn.Call(ctx, r.flavour.Handshake, "initialize", params, &result); err != nil {
		return r.handshakeFailed(err)
	}
	if result.ProtocolVersion != protocolVersion {
		return r.fault(fault.ProviderRuntimeStartFailed, "initialize",
			r.flavour.Provider.Name()+" speaks another version of its protocol; update it.", nil).
			With("protocolVersion", result.ProtocolVersion)
	}
	r.caps, r.authMethods = result.AgentCapabilities, result.AuthMethods
	r.link.Log.Debug().Str("agent", result.AgentInfo.Name).Str("version", result.AgentInfo.Version).Msg("agent greeted")
	return nil
}

func (r *Runtime) handshakeFailed(err error) error {
	if e := fault.From(r.failure("initialize", err)); e.Code == fault.ProviderAuthRequired {
		return e
	}
	sentence := r.flavour.Provider.Name() + " started but did not answer the first request."
	e := r.fault(fault.ProviderRuntimeStartFailed, "initialize", sentence, err)
	if stats := r.conn.Stats(); stats.LastStray != "" {
		e = e.With("printed", r.link.Redactor.String(stats.LastStray))
	}
	return e
}

// authenticate logs in, once, where the agent wants it and has a stored login. It
// never waits for a person.
func (r *Runtime) authenticate(ctx context.Context) error {
	if r.flavour.authMethod == "" || len(r.authMethods) == 0 {
		return nil
	}
	for _, name := range r.flavour.authEnv {
		if r.link.Lookup(name) != "" {
			return nil
		}
	}
	if err := r.auth.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.auth.Release(1)
	if r.loggedIn {
		return nil
	}
	offered := false
	for _, m := range r.authMethods {
		offered = offered || m.ID == r.flavour.authMethod
	}
	if !offered {
		return r.authRequired("authenticate", nil)
	}
	err := r.conn.Call(ctx, r.flavour.Authenticate, "authenticate", authenticateParams{r.flavour.authMethod}, nil)
	switch {
	case err == nil:
		r.loggedIn = true
		return nil
	case ctx.Err() != nil, r.conn.Err() != nil:
		return r.failure("authenticate", err)
	}
	return r.authRequired("authenticate", err) // refused, or waiting for a person
}

// call sends a request and turns its failure into an error with a code.
func (r *Runtime) call(ctx context.Context, timeout time.Duration, method string, params, result any) error {
	if err := r.conn.Call(ctx, timeout, method, params, result); err != nil {
		return r.failure(method, err)
	}
	return nil
}

// Notification takes what the agent tells. It is called on the reader.
func (r *Runtime) Notification(method string, params jsontext.Value) {
	if method != updateMethod {
		return
	}
	u, err := decodeUpdate(params)
	if err != nil {
		r.link.Log.Debug().Msg("an update of the agent cannot be read")
		return
	}
	r.updated(u)
}

// updated passes on what an update says to its session.
func (r *Runtime) updated(u update) {
	r.Mu.Lock()
	s := r.Taken[u.session]
	if s == nil {
		r.strangers++
		r.Mu.Unlock()
		return
	}
	t, muted := s.turn, s.muted()
	if t != nil && !muted && u.call.id != "" {
		t.note(u.call)
	}
	r.Mu.Unlock()
	if !muted {
		s.update(t, u)
	}
}

// Request answers what the agent asks. It is called on the reader.
func (r *Runtime) Request(id jsonrpc.ID, method string, params jsontext.Value) {
	if method == "session/request_permission" {
		r.asked(id, params)
		return
	}
	if answer, ok := r.flavour.extensions[method]; ok {
		r.answer(id, outcomeResult{answer})
		return
	}
	r.link.Log.Debug().Str("method", method).Msg("the agent asks for something that is not offered")
	if err := r.conn.Refuse(id, jsonrpc.CodeMethodNotFound, "Method not found"); err != nil {
		r.link.Log.Debug().Err(err).Msg("an answer to the agent is lost")
	}
}

func (r *Runtime) answer(id jsonrpc.ID, result any) {
	if err := r.conn.Reply(id, result); err != nil {
		r.link.Log.Debug().Err(err).Msg("an answer to the agent is lost")
	}
}

// asked has a permission question judged. A question of a session in which no turn
// runs, or whose turn is being cancelled, is answered as cancelled.
func (r *Runtime) asked(id jsonrpc.ID, params jsontext.Value) {
	var p permissionParams
	if err := jsonrpc.Unmarshal(params, &p); err != nil {
		if err := r.conn.Refuse(id, jsonrpc.CodeInvalidParams, "The question cannot be read"); err != nil {
			r.link.Log.Debug().Err(err).Msg("an answer to the agent is lost")
		}
		return
	}
	r.Mu.Lock()
	s := r.Taken[p.SessionID]
	if s == nil || s.turn == nil || s.turn.cancelled || s.Fenced() {
		r.Mu.Unlock()
		r.answer(id, outcomeResult{cancelledOutcome})
		return
	}
	t := s.turn
	t.questions[id] = struct{}{}
	r.Mu.Unlock()
	s.Out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: t.id})
	r.tasks.Go(func() {
		allowed := s.isFrontendTool(p.ToolCall) || s.policy.Allows(p.ToolCall.question())
		d := decision(p.Options, allowed, s.policy.Permission == thread.PermitFull)
		r.Mu.Lock()
		_, open := t.questions[id]
		delete(t.questions, id)
		r.Mu.Unlock()
		if open {
			r.link.Log.Debug().Str("kind", p.ToolCall.Kind).Bool("allowed", allowed).Msg("permission question answered")
			r.answer(id, outcomeResult{d})
		}
	})
}

// Detach drops what the runtime still says of a thread.
func (r *Runtime) Detach(threadID string) {
	for _, s := range r.Dismiss(threadID) {
		s.Out.Shut()
	}
}

// Farewell cancels the turns that run and waits a little for their answers.
func (r *Runtime) Farewell(ctx context.Context) {
	r.Mu.Lock()
	running := map[*session]*turn{}
	for _, s := range r.Running() {
		running[s] = s.turn
	}
	r.Mu.Unlock()
	for s, t := range running {
		if err := s.cancel(t); err != nil {
			return // it takes no input
		}
	}
	for _, t := range running {
		select {
		case <-t.ended:
		case <-r.conn.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// Gone ends everything: the process is gone. It runs after the last frame.
func (r *Runtime) Gone(loss *fault.Error) {
	tell := r.Lose(loss, func(s *session) {
		clear(s.turn.questions)
		close(s.turn.ended)
		s.turn = nil
	})
	r.conn.Close(loss)
	tell()
	r.tasks.Wait()
}
