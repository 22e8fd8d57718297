package lifecycle

import (
	"context"
	"errors"
	"sync"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// runner carries out a thread's effects towards its provider, one after the
// other, in a goroutine that lives while there are any.
type runner struct {
	a *actor

	mu      sync.Mutex
	queue   []job
	running bool
	cancel  context.CancelFunc // of the attach or start in hand; nil otherwise

	// Touched by the goroutine of the moment only.
	session thread.Attachment // Conversation nil = none is open
	begun   bool              // a turn was started on session, so its Fresh and Lost were told
}

// job is one effect and, for an attach, what the runtime must know.
type job struct {
	effect    thread.Effect
	spec      thread.SessionSpec
	workspace thread.Workspace
}

func (r *runner) add(e thread.Effect) { r.addJob(job{effect: e}) }

func (r *runner) addJob(j job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, j)
	if !r.running {
		r.running = true
		r.a.svc.spawn(r.loop)
	}
}

func (r *runner) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.running
}

// abort gives up the attach or start in hand and forgets those that wait.
func (r *runner) abort() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
	}
	kept := r.queue[:0]
	for _, j := range r.queue {
		if !abortable(j.effect.Kind) {
			kept = append(kept, j)
		}
	}
	clear(r.queue[len(kept):])
	r.queue = kept
}

func abortable(k thread.EffectKind) bool {
	return k == thread.EffectAttach || k == thread.EffectStartTurn
}

func (r *runner) loop() {
	for {
		ctx, cancel := context.WithCancel(r.a.svc.kill)
		r.mu.Lock()
		r.cancel = nil
		if len(r.queue) == 0 {
			r.running = false
			r.queue = nil
			r.mu.Unlock()
			cancel()
			r.a.mail.signal() // the actor may want to rest
			return
		}
		j := r.queue[0]
		r.queue = r.queue[1:]
		if abortable(j.effect.Kind) {
			r.cancel = cancel
		}
		r.mu.Unlock()
		r.carryOut(ctx, j)
		cancel()
	}
}

func (r *runner) carryOut(ctx context.Context, j job) {
	defer func() {
		if p := recover(); p != nil {
			r.a.svc.panicked(p, "an effect of a thread")
			r.failed(j.effect)
		}
	}()
	switch j.effect.Kind {
	case thread.EffectAttach:
		r.a.mail.put(r.attach(ctx, j))
	case thread.EffectStartTurn:
		r.a.mail.put(r.startTurn(ctx, j.effect))
	case thread.EffectCancelTurn:
		r.cancelTurn(ctx, j.effect.Turn)
	case thread.EffectAbandon:
		r.abandon(j.effect.Turn)
	case thread.EffectCloseSession:
		r.closeSession(ctx)
	case thread.EffectAnswerTool:
		r.answerTool(ctx, j.effect)
	}
}

// failed reports an attach or a start that panicked.
func (r *runner) failed(e thread.Effect) {
	switch e.Kind {
	case thread.EffectAttach:
		r.a.mail.put(thread.Attached{Turn: e.Turn, Err: internal()})
	case thread.EffectStartTurn:
		r.a.mail.put(thread.Started{Turn: e.Turn, Err: internal()})
	}
}

// attach makes sure that a provider session is open. One that is open already
// and alive is used again.
func (r *runner) attach(ctx context.Context, j job) thread.Attached {
	turn := j.effect.Turn
	if c := r.session.Conversation; c != nil && !c.Alive() {
		r.session = thread.Attachment{}
	}
	if r.session.Conversation == nil {
		if err := r.a.svc.checkWorkspace(r.a.id, j.workspace); err != nil {
			return thread.Attached{Turn: turn, Err: err}
		}
		j.spec.Tools = r.openTools(j.spec.Skills)
		got, err := r.a.svc.cfg.Runtimes.Attach(ctx, j.spec, r.a.mail.newSink())
		if err != nil {
			r.closeTools()
			return thread.Attached{Turn: turn, Err: providerError(err, fault.ProviderRuntimeStartFailed)}
		}
		r.session, r.begun = got, false
		r.admit(got.Witness)
		if ctx.Err() != nil {
			r.closeSession(r.a.svc.kill)
			return thread.Attached{Turn: turn, Err: providerError(ctx.Err(), fault.ProviderRuntimeStartFailed)}
		}
	}
	result := thread.Attached{Turn: turn, SessionID: r.session.SessionID}
	if !r.begun {
		result.Fresh, result.Lost = r.session.Fresh, r.session.Lost
	}
	return result
}

func (r *runner) startTurn(ctx context.Context, e thread.Effect) thread.Started {
	c := r.session.Conversation
	if c == nil {
		return thread.Started{Turn: e.Turn, Unsent: true, Err: fault.New(fault.ProviderRuntimeDisconnected, "The agent's session was gone before the turn began.")}
	}
	r.begun = true
	if err := fault.Point(PointBeforeProviderWrite); err != nil {
		return thread.Started{Turn: e.Turn, Err: providerError(err, fault.ProviderRequestFailed)}
	}
	err := c.StartTurn(ctx, thread.Turn{ID: e.Turn, Kind: e.Purpose, Text: e.Text})
	_ = fault.Point(PointAfterProviderWrite)
	if err != nil {
		return thread.Started{Turn: e.Turn, Unsent: errors.Is(err, fault.ErrUnsent), Err: providerError(err, fault.ProviderRequestFailed)}
	}
	return thread.Started{Turn: e.Turn}
}

func (r *runner) cancelTurn(ctx context.Context, turn uint64) {
	c := r.session.Conversation
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.a.svc.cfg.Durations.Stop)
	defer cancel()
	if err := c.Cancel(ctx, turn); err != nil {
		r.a.log.Debug().Err(err).Msg("the agent could not be asked to stop its turn")
	}
}

func (r *runner) abandon(turn uint64) {
	if c := r.session.Conversation; c != nil {
		r.a.log.Warn().Msg("the agent did not confirm that its turn stopped; its session is set aside")
		c.Abandon(turn)
		r.session = thread.Attachment{}
		r.closeTools()
	}
}

func (r *runner) closeSession(ctx context.Context) {
	c := r.session.Conversation
	r.session = thread.Attachment{}
	r.closeTools()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.a.svc.cfg.Durations.Close)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		r.a.log.Debug().Err(err).Msg("the agent's session could not be closed")
	}
}

func (r *runner) answerTool(ctx context.Context, e thread.Effect) {
	c := r.session.Conversation
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.a.svc.cfg.Durations.Stop)
	defer cancel()
	if err := c.AnswerTool(ctx, e.CallID, e.Answer); err != nil {
		r.a.log.Debug().Err(err).Msg("a tool call could not be answered")
	}
}

// openTools makes an address at which a new session finds the thread's tools.
func (r *runner) openTools(skills *tool.Skills) thread.ToolAccess {
	server := r.a.svc.cfg.ToolServer
	if server == nil || skills == nil || len(skills.Tools) == 0 {
		return thread.ToolAccess{}
	}
	url, secret := server.Open(r.a.id, *skills)
	return thread.ToolAccess{MCPURL: url, MCPSecret: secret}
}

// admit lets the open session call the thread's tools. A session that was not told
// of the address needs none.
func (r *runner) admit(w thread.ToolWitness) {
	switch server := r.a.svc.cfg.ToolServer; {
	case server == nil:
	case w == nil:
		server.Close(r.a.id)
	default:
		server.Admit(r.a.id, w)
	}
}

// closeTools voids the address of the session that is closed.
func (r *runner) closeTools() {
	if server := r.a.svc.cfg.ToolServer; server != nil {
		server.Close(r.a.id)
	}
}

// providerError makes sure that what a runtime says has a code.
func providerError(err error, code fault.Code) *fault.Error {
	var e *fault.Error
	if errors.As(err, &e) {
		return e
	}
	return fault.Wrap(code, "provider", err, code.Info().Meaning)
}
