package codex

import (
	"context"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Runtime is the protocol side of one app-server.
type Runtime struct {
	agent Agent
	link  provider.Link
	conn  *jsonrpc.Conn
	tasks sync.WaitGroup // requests that follow from what the agent said

	// Its mutex guards what follows, too.
	*provider.Seats[*session]
	held map[string][]string // by our thread id: conversations that this process keeps locked
}

var _ provider.Runtime = (*Runtime)(nil)

func newRuntime(a Agent, l provider.Link) *Runtime {
	r := &Runtime{agent: a, link: l, held: map[string][]string{}}
	r.conn = jsonrpc.New(jsonrpc.Config{Dialect: jsonrpc.Bare, Write: l.Write, Post: l.Post, Handler: r, Silence: a.Silence})
	r.Seats = provider.NewSeats[*session](l, r.conn.Err,
		provider.Faults{Provider: thread.Codex, Protocol: "codex", LoginCommand: loginCommand, Redactor: l.Redactor})
	return r
}

// Feed takes a frame from the agent.
func (r *Runtime) Feed(frame []byte) { r.conn.Feed(frame) }

// Skipped hears of a frame that was too long. If it was an answer its request
// fails; a turn goes on without an item, whose text its deltas have told, and fails
// without its end.
func (r *Runtime) Skipped(head, tail []byte) {
	r.conn.Skipped(head, tail)
	told := jsonrpc.Peek(head)
	method := jsonrpc.Text(told["/method"])
	n := notice{ThreadID: jsonrpc.Text(told["/params/threadId"])}
	n.Turn.ID = jsonrpc.Text(told["/params/turn/id"])
	s, t := r.owner(method, n)
	if method == "turn/completed" && t != nil {
		s.finish(t, thread.OutcomeFailed, fault.From(r.failure("turn", jsonrpc.ErrTooLong)))
	}
}

// Broken is closed when the agent cannot be talked to any more.
func (r *Runtime) Broken() <-chan struct{} { return r.conn.Done() }

// Handshake greets the agent. Errors: PROVIDER_RUNTIME_START_FAILED.
func (r *Runtime) Handshake(ctx context.Context) error {
	params := initializeParams{
		ClientInfo:   clientInfo{Name: "pedelec", Title: "Pedelec", Version: "1"},
		Capabilities: capabilities{ExperimentalAPI: true},
	}
	var result initializeResult
	err := r.conn.Call(ctx, r.agent.Handshake, "initialize", params, &result)
	if err == nil {
		err = r.conn.Notify("initialized", nil)
	}
	if err != nil {
		if e := fault.From(r.failure("initialize", err)); e.Code == fault.ProviderAuthRequired {
			return e
		}
		e := r.fault(fault.ProviderRuntimeStartFailed, "initialize", name+" started but did not answer the first request.", err)
		if stats := r.conn.Stats(); stats.LastStray != "" {
			e = e.With("printed", r.link.Redactor.String(stats.LastStray))
		}
		return e
	}
	r.link.Log.Debug().Str("agent", result.UserAgent).Msg("agent greeted")
	return nil
}

// spawn runs a task that Gone waits for, unless the process is gone.
func (r *Runtime) spawn(task func()) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Loss == nil {
		r.tasks.Go(task)
	}
}

// tell sends a request whose answer changes nothing.
func (r *Runtime) tell(method string, params any) {
	if err := r.conn.Tell(method, params); err != nil {
		r.link.Log.Debug().Err(err).Str("method", method).Msg("a request to the agent is lost")
	}
}

// Notification takes what the agent tells. It is called on the reader.
func (r *Runtime) Notification(method string, params jsontext.Value) {
	switch method {
	case "turn/started", "turn/completed", "item/started", "item/completed", "item/agentMessage/delta",
		"thread/tokenUsage/updated", "error":
	default:
		r.stirred(params)
		return
	}
	var n notice
	if err := jsonrpc.Unmarshal(params, &n); err != nil {
		r.link.Log.Debug().Str("method", method).Msg("a notification of the agent cannot be read")
		return
	}
	s, t := r.owner(method, n)
	switch {
	case s == nil:
	case method != "turn/completed":
		s.hear(method, t, n)
	case t != nil:
		s.completed(t, n)
	}
}

// owner returns the session of a notification, and its running turn if that is the
// one which the notification is about.
func (r *Runtime) owner(method string, n notice) (*session, *turn) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	s := r.Taken[n.ThreadID]
	if s == nil { // a sub-agent's, for one
		return nil, nil
	}
	if method == "turn/started" && s.turn != nil && n.Turn.ID != s.past {
		s.take(s.turn, n.Turn.ID) // it may come before the answer to our request
	}
	return s, s.owner(n)
}

// stirred notes that something moved in a session.
func (r *Runtime) stirred(params jsontext.Value) {
	var p threadParams
	if params.Kind() != '{' || jsonrpc.Unmarshal(params, &p) != nil || p.ThreadID == "" {
		return
	}
	r.Mu.Lock()
	s := r.Taken[p.ThreadID]
	muted := s == nil || s.Muted() || s.turn == nil
	var turn uint64
	if !muted {
		turn = s.turn.id
	}
	r.Mu.Unlock()
	if !muted {
		s.Out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: turn})
	}
}

// Detach drops what the runtime still says of a thread, and lets go of its
// conversations: no other process can open them before.
func (r *Runtime) Detach(threadID string) {
	for _, s := range r.Dismiss(threadID) {
		s.Out.Shut()
	}
	r.Mu.Lock()
	ids := slices.DeleteFunc(slices.Clone(r.held[threadID]), func(id string) bool { return r.Taken[id] != nil })
	if len(ids) > 0 {
		delete(r.held, threadID)
	}
	r.Mu.Unlock()
	for _, id := range ids {
		r.spawn(func() { r.letGo(id) })
	}
}

// letGo makes the agent forget a conversation that nobody uses in this process.
// Putting it into the archive and back is its only way to give up the lock.
func (r *Runtime) letGo(id string) {
	ctx := context.Background() // Gone ends the calls
	for _, method := range []string{"thread/archive", "thread/unarchive"} {
		if err := r.conn.Call(ctx, r.agent.Control, method, threadParams{id}, nil); err != nil {
			r.link.Log.Debug().Err(err).Str("method", method).Msg("a conversation could not be handed over")
			return
		}
	}
}

// Farewell interrupts the turns that run and waits a little for their end.
func (r *Runtime) Farewell(ctx context.Context) {
	r.Mu.Lock()
	running := map[*session]*turn{}
	for _, s := range r.Running() {
		running[s] = s.turn
	}
	r.Mu.Unlock()
	for s, t := range running {
		s.cancel(t)
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
		clear(s.turn.calls)
		close(s.turn.ended)
		s.turn = nil
	})
	r.conn.Close(loss)
	tell()
	r.tasks.Wait()
}
