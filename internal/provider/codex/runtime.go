package codex

import (
	"context"
	"slices"
	"sync"
	"time"

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
	now   func() time.Time
	tasks sync.WaitGroup // requests that follow from what the agent said

	mu          sync.Mutex
	sessions    map[string]*session // by the agent's thread id
	held        map[string][]string // by our thread id: conversations that this process keeps locked
	turns       int                 // that run and are not quarantined
	quarantined int
	draining    bool
	ending      bool         // no turn begins any more
	loss        *fault.Error // set when the process is gone
	strangers   int          // frames of conversations that are not ours, such as sub-agents'
}

var _ provider.Runtime = (*Runtime)(nil)

func newRuntime(a Agent, l provider.Link) *Runtime {
	r := &Runtime{agent: a, link: l, now: time.Now, sessions: map[string]*session{}, held: map[string][]string{}}
	r.conn = jsonrpc.New(jsonrpc.Config{Dialect: jsonrpc.Bare, Write: l.Write, Post: l.Post, Handler: r, Silence: a.Silence})
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
	if jsonrpc.Text(told["/method"]) != "turn/completed" {
		return
	}
	var n notice
	n.Turn.ID = jsonrpc.Text(told["/params/turn/id"])
	r.mu.Lock()
	s := r.sessions[jsonrpc.Text(told["/params/threadId"])]
	if s == nil {
		r.mu.Unlock()
		return
	}
	t, known := s.owner(n)
	r.mu.Unlock()
	if known {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loss == nil {
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
	r.mu.Lock()
	s := r.sessions[n.ThreadID]
	if s == nil {
		r.strangers++
		r.mu.Unlock()
		return
	}
	if method == "turn/started" && s.turn != nil && n.Turn.ID != s.past {
		s.take(s.turn, n.Turn.ID) // it may come before the answer to our request
	}
	t, known := s.owner(n)
	r.mu.Unlock()
	if method == "turn/completed" {
		if known {
			s.completed(t, n)
		}
		return
	}
	s.hear(method, t, n)
}

// stirred notes that something moved in a session.
func (r *Runtime) stirred(params jsontext.Value) {
	var p threadParams
	if params.Kind() != '{' || jsonrpc.Unmarshal(params, &p) != nil || p.ThreadID == "" {
		return
	}
	r.mu.Lock()
	s := r.sessions[p.ThreadID]
	muted := s == nil || s.quarantine != nil || s.closed || s.turn == nil
	var turn uint64
	if !muted {
		turn = s.turn.id
	}
	r.mu.Unlock()
	if !muted {
		s.out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: turn})
	}
}

// Load tells what the runtime carries.
func (r *Runtime) Load() provider.Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	return provider.Load{Sessions: len(r.sessions), Turns: r.turns, Reserved: r.reservations(), Quarantined: r.quarantined}
}

// reservations counts the sessions that wait for the turn they were opened for.
// The mutex is held.
func (r *Runtime) reservations() int {
	n := 0
	for _, s := range r.sessions {
		if s.reserved() {
			n++
		}
	}
	return n
}

// Retire reports whether no turn runs or is about to, and lets none begin from
// then on.
func (r *Runtime) Retire() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns == 0 && r.reservations() == 0 {
		r.ending = true
	}
	return r.ending
}

// Drain makes idle conversations not alive.
func (r *Runtime) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// Settled returns a channel that is closed when the thread's quarantine here is
// over, or nil if there is none.
func (r *Runtime) Settled(threadID string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		if s.threadID == threadID && s.quarantine != nil {
			return s.quarantine
		}
	}
	return nil
}

// Detach drops what the runtime still says of a thread, and lets go of its
// conversations: no other process can open them before.
func (r *Runtime) Detach(threadID string) {
	for _, s := range r.takeSessions(threadID) {
		s.out.Shut()
	}
	r.mu.Lock()
	ids := slices.DeleteFunc(slices.Clone(r.held[threadID]), func(id string) bool { return r.sessions[id] != nil })
	if len(ids) > 0 {
		delete(r.held, threadID)
	}
	r.mu.Unlock()
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

// takeSessions removes a thread's idle sessions from the runtime and returns them.
func (r *Runtime) takeSessions(threadID string) []*session {
	r.mu.Lock()
	var taken []*session
	for id, s := range r.sessions {
		if s.threadID == threadID && s.turn == nil {
			s.closed = true
			delete(r.sessions, id)
			taken = append(taken, s)
		}
	}
	r.mu.Unlock()
	if len(taken) > 0 {
		r.link.Changed()
	}
	return taken
}

// Farewell interrupts the turns that run and waits a little for their end.
func (r *Runtime) Farewell(ctx context.Context) {
	r.mu.Lock()
	running := map[*session]*turn{}
	for _, s := range r.sessions {
		if s.turn != nil && s.quarantine == nil {
			running[s] = s.turn
		}
	}
	r.mu.Unlock()
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
	r.mu.Lock()
	r.loss = loss
	sessions := r.sessions
	r.sessions = map[string]*session{}
	r.turns, r.quarantined = 0, 0
	turns := map[*session]*turn{}
	for _, s := range sessions {
		s.closed = true
		if s.quarantine != nil {
			close(s.quarantine)
		}
		if s.turn != nil {
			turns[s] = s.turn
			clear(s.turn.calls)
			close(s.turn.ended)
			s.turn = nil
		}
	}
	r.mu.Unlock()
	r.conn.Close(loss)
	for _, s := range sessions {
		// The thread first hears that the runtime is gone: the terminal frame may
		// let it begin another turn, which a late loss must not touch.
		s.out.Frame(thread.Frame{Kind: thread.FrameGone, Err: loss})
		if t := turns[s]; t != nil {
			s.out.Frame(thread.Frame{Kind: thread.FrameFinished, Turn: t.id, Outcome: thread.OutcomeFailed, Err: loss})
		}
		s.out.Shut()
	}
	r.tasks.Wait()
}
