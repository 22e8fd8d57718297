package claude

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Runtime is the protocol side of one process, which has one conversation.
type Runtime struct {
	agent  Agent
	link   provider.Link
	launch *provider.Launch
	tools  thread.ToolNames
	now    func() time.Time
	tasks  sync.WaitGroup // judgements and interrupts
	greet  chan error     // room for one: the end of the handshake
	broken chan struct{}  // closed when the process is gone

	mu       sync.Mutex
	session  *session // nil = not attached
	requests int      // of ours
	ending   bool     // no turn begins any more
	loss     *fault.Error
	strays   int // lines that are no message

	// The reader's.
	counted uint64 // tokens of the process that were told
}

var _ provider.Runtime = (*Runtime)(nil)

func newRuntime(a Agent, l provider.Link) *Runtime {
	r := &Runtime{agent: a, link: l, launch: l.Launch, now: time.Now, greet: make(chan error, 1), broken: make(chan struct{})}
	if skills := l.Launch.Spec.Skills; skills != nil {
		r.tools = thread.ModelNames(skills.Tools)
	}
	return r
}

// Broken is closed when the process is gone: one that takes no input any more is
// ended by those who write to it.
func (r *Runtime) Broken() <-chan struct{} { return r.broken }

// Skipped hears of a line that was too long. A request is refused; a turn goes on
// without a message, and fails without its end.
func (r *Runtime) Skipped(head, _ []byte) {
	r.link.Log.Debug().Msg("a line of the agent was too long to be read")
	told := jsonrpc.Peek(head)
	kind := word(told["/type"])
	if kind == "control_request" {
		r.refuse(word(told["/request_id"]), "The request is too long")
		return
	}
	r.mu.Lock()
	s := r.session
	r.mu.Unlock()
	if _, ends := told["/duration_api_ms"]; s != nil && (kind == "result" || ends) { // newer releases put the type behind the text
		s.endedUnread()
	}
}

// initializeID is the id of the request that tells when the agent is ready.
const initializeID = "pedelec-initialize"

// errSilent is the cause of a handshake that was not answered. It is no deadline of
// a caller's.
var errSilent = errors.New("no answer in time")

// Handshake waits until the agent is ready: it prints nothing by itself. Errors:
// PROVIDER_SESSION_LOST, PROVIDER_RUNTIME_START_FAILED.
func (r *Runtime) Handshake(ctx context.Context) error {
	request := initializeRequest{Subtype: "initialize", Hooks: jsontext.Value("null")}
	if hasTools(r.launch.Spec) {
		request.SDKMCPServers = []string{serverName}
	}
	if err := r.write(ctx, controlLine{"control_request", initializeID, request}); err != nil {
		return failure(fault.ProviderRuntimeStartFailed, "initialize", name+" started but took no input.", err)
	}
	select {
	case err := <-r.greet:
		return err
	case <-r.broken:
		select {
		case err := <-r.greet: // it said why before it went
			return err
		default:
			return failure(fault.ProviderRuntimeStartFailed, "initialize", name+" ended before it was ready.", nil)
		}
	case <-ctx.Done():
		return failure(fault.ProviderRuntimeStartFailed, "initialize", name+" started but did not answer the first request.", errSilent)
	}
}

// greeted ends the handshake; the first call counts.
func (r *Runtime) greeted(err error) {
	select {
	case r.greet <- err:
	default:
	}
}

// Attach opens the session that the process was started for.
func (r *Runtime) Attach(_ context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, error) {
	s := &session{
		r:      r,
		out:    provider.NewOutlet(sink),
		policy: provider.Policy{Permission: spec.Permission, Workspace: spec.WorkspacePath, BinDir: r.link.BinDir},
		opened: r.now(),
	}
	r.mu.Lock()
	if r.loss != nil {
		r.mu.Unlock()
		return thread.Attachment{}, r.loss
	}
	if r.session != nil || r.ending {
		r.mu.Unlock()
		return thread.Attachment{}, failure(fault.ProviderRuntimeDisconnected, "attach", "The process of this conversation is about to end.", nil)
	}
	r.session = s
	r.mu.Unlock()
	r.link.Changed()
	return thread.Attachment{Conversation: s, SessionID: r.launch.SessionID, Fresh: r.launch.Fresh}, nil
}

// Feed takes a line from the agent.
func (r *Runtime) Feed(frame []byte) {
	var l line
	if err := jsonrpc.Unmarshal(frame, &l); err != nil {
		r.mu.Lock()
		r.strays++
		r.mu.Unlock()
		r.link.Log.Debug().Msg("a line of the agent cannot be read")
		return
	}
	switch l.Type {
	case "control_response":
		if l.Response.RequestID == initializeID {
			r.ready(l.Response)
		}
	case "control_request":
		r.asked(l.RequestID, l.Request)
	case "control_cancel_request":
		r.withdrawn(l.RequestID)
	default:
		r.spoken(&l)
	}
}

func (r *Runtime) ready(a controlAnswer) {
	if a.Subtype == "success" {
		r.greeted(nil)
		return
	}
	words := r.link.Redactor.String(a.Error)
	r.greeted(failure(fault.ProviderRuntimeStartFailed, "initialize", name+" refused the first request: "+provider.EndWords(words), nil).With("message", words))
}

// spoken hands a line of the conversation to the session.
func (r *Runtime) spoken(l *line) {
	r.mu.Lock()
	s := r.session
	r.mu.Unlock()
	if s == nil {
		if l.Type == "result" && unknownSession(l) {
			r.greeted(failure(fault.ProviderSessionLost, "resume", name+" no longer knows the conversation.", nil).
				With("message", r.link.Redactor.String(l.complaints()[0])))
		}
		return
	}
	s.hear(l)
}

// write sends one line and waits until it is written.
func (r *Runtime) write(ctx context.Context, v any) error {
	text, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return err
	}
	return r.link.Write(ctx, text)
}

// post queues one line. One that cannot be queued is lost with the process, which
// does not read.
func (r *Runtime) post(v any) {
	text, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err == nil {
		err = r.link.Post(text)
	}
	if err != nil {
		r.link.Log.Debug().Err(err).Msg("a line for the agent is lost")
	}
}

// requestID returns the next id for a request of ours. The mutex is held.
func (r *Runtime) requestID() string {
	r.requests++
	return "pedelec-" + strconv.Itoa(r.requests)
}

// spawn runs a task that Gone waits for, unless the process is gone.
func (r *Runtime) spawn(task func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loss == nil {
		r.tasks.Go(task)
	}
}

// Load tells what the runtime carries.
func (r *Runtime) Load() provider.Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	var l provider.Load
	s := r.session
	if s == nil {
		return l
	}
	switch {
	case s.quarantine != nil:
		l.Quarantined = 1
	case s.closed:
		l.Spent = true
	default:
		l.Sessions = 1
		if s.turn != nil {
			l.Turns = 1
		} else if s.reserved() {
			l.Reserved = 1
		}
	}
	return l
}

// Retire reports whether no turn runs or is about to, and lets none begin from
// then on.
func (r *Runtime) Retire() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.session
	if s == nil || s.quarantine != nil || s.closed || s.turn == nil && !s.reserved() {
		r.ending = true
	}
	return r.ending
}

// Drain does nothing: a process with one session is stopped rather than drained.
func (r *Runtime) Drain() {}

// Settled returns a channel that is closed when the quarantine of the session is
// over, or nil if there is none.
func (r *Runtime) Settled(string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == nil || r.session.quarantine == nil {
		return nil
	}
	return r.session.quarantine
}

// Detach drops what the runtime still says.
func (r *Runtime) Detach(string) {
	r.mu.Lock()
	s := r.session
	if s != nil {
		s.closed = true
	}
	r.mu.Unlock()
	if s != nil {
		s.out.Shut()
		r.link.Changed()
	}
}

// Farewell interrupts the turn that runs and waits a little for its end: the end of
// input alone does not stop one.
func (r *Runtime) Farewell(ctx context.Context) {
	r.mu.Lock()
	s := r.session
	var t *turn
	if s != nil && s.quarantine == nil {
		t = s.turn
	}
	r.mu.Unlock()
	if t == nil {
		return
	}
	s.cancel(t)
	select {
	case <-t.ended:
	case <-r.broken:
	case <-ctx.Done():
	}
}

// Gone ends everything: the process is gone. It runs after the last line.
func (r *Runtime) Gone(loss *fault.Error) {
	r.mu.Lock()
	r.loss = loss
	s := r.session
	var t *turn
	if s != nil {
		s.closed = true
		if s.quarantine != nil {
			close(s.quarantine)
			s.quarantine = nil
		}
		if t = s.turn; t != nil {
			clear(t.open)
			close(t.ended)
			s.turn = nil
		}
	}
	r.mu.Unlock()
	close(r.broken)
	if s != nil {
		// The thread first hears that the runtime is gone: the terminal frame may let
		// it begin another turn, which a late loss must not touch.
		s.out.Frame(thread.Frame{Kind: thread.FrameGone, Err: loss})
		if t != nil {
			s.out.Frame(thread.Frame{Kind: thread.FrameFinished, Turn: t.id, Outcome: thread.OutcomeFailed, Err: loss})
		}
		s.out.Shut()
	}
	r.tasks.Wait()
}
