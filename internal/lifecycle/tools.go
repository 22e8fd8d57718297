package lifecycle

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// CallTool hands an agent's call of a frontend tool to the page and returns the
// page's answer. callID is the provider's own id of the call, "" if it has none;
// delivery tells later whether the answer reached the agent. Arguments are
// checked here, on the caller's goroutine.
func (s *Service) CallTool(ctx context.Context, r thread.ToolRequest) (jsontext.Value, error) {
	if s.closing.Load() {
		return nil, leaving()
	}
	a, err := s.open(ctx, r.ThreadID)
	if err != nil {
		return nil, err
	}
	defer s.registry.release(a)
	if err := a.awaitSettled(ctx); err != nil {
		return nil, err
	}
	if err := a.ring.checkToolCall(); err != nil {
		return nil, err
	}
	call, err := a.tools.Check(r.Name, r.Args)
	if err != nil {
		return nil, err
	}
	in := newCall(s.cfg.Now(), r.CallID, r.Name, call)
	if r.CallID == "" {
		a.answers.settle(a.mail)
	}
	var caller thread.CallerID
	v, err := a.ask(ctx, func(id thread.CallerID) thread.Input {
		caller, in.Caller = id, id
		return in
	})
	if r.Delivery != nil && ctx.Err() == nil {
		a.answers.add(caller, r.Delivery)
	}
	if err != nil {
		return nil, err
	}
	return v.(jsontext.Value), nil
}

func newCall(now time.Time, callID, name string, c tool.Call) thread.CallTool {
	var random [8]byte
	rand.Read(random[:])
	return thread.CallTool{
		RequestID: fmt.Sprintf("toolreq_%d_%s", now.UnixMilli(), hex.EncodeToString(random[:])),
		CallID:    callID, Name: name, Args: c.Args, Key: thread.ToolKey(c.Key), Timeout: c.Timeout,
	}
}

// checkToolCall refuses a call at once where the thread's status does; the actor
// decides again when it gets there.
func (r *ring) checkToolCall() error {
	r.mu.Lock()
	view := r.view
	r.mu.Unlock()
	if err := view.CheckToolCall(); err != nil {
		return err
	}
	return nil
}

// ToolSpec describes a tool of a thread that is not ended. An unknown thread has
// no manifest: TOOLS_MANIFEST_INVALID.
func (s *Service) ToolSpec(ctx context.Context, threadID, name string) (thread.Tool, error) {
	noManifest := fault.New(fault.ToolsManifestInvalid, "The thread is unknown or ended, so it has no tools.").With("threadId", threadID)
	a, err := s.open(ctx, threadID)
	if fault.Is(err, fault.ThreadNotFound) {
		return thread.Tool{}, noManifest
	}
	if err != nil {
		return thread.Tool{}, err
	}
	defer s.registry.release(a)
	if err := a.awaitSettled(ctx); err != nil {
		return thread.Tool{}, err
	}
	if a.ring.snapshot().Status == thread.Ended {
		return thread.Tool{}, noManifest
	}
	t, ok := a.tools.Lookup(name)
	if !ok {
		return thread.Tool{}, fault.New(fault.ToolNotFound, "The thread has no tool of this name.").With("toolName", name)
	}
	return t, nil
}

// SubmitToolResult brings the page's answer to a tool request.
func (s *Service) SubmitToolResult(ctx context.Context, c thread.Caller, threadID, requestID string, result jsontext.Value) error {
	a, err := s.acquireForCommand(ctx, c, threadID)
	if err != nil {
		return err
	}
	defer s.registry.release(a)
	_, err = a.ask(ctx, func(id thread.CallerID) thread.Input {
		return thread.SubmitToolResult{Caller: id, RequestID: requestID, Result: result}
	})
	return err
}

// deliveryWindow is how long it matters whether an answer was delivered: as long
// as it may be given again.
const deliveryWindow = 10 * time.Second

// deliveries are answers of which it is not known yet whether they arrived.
type deliveries struct {
	mu   sync.Mutex
	list []delivery // oldest first
}

type delivery struct {
	waiter thread.CallerID
	peer   thread.Delivery
	at     time.Time
}

func (d *deliveries) add(waiter thread.CallerID, peer thread.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.list) > 0 && time.Since(d.list[0].at) > deliveryWindow {
		d.list = d.list[1:]
	}
	d.list = append(d.list, delivery{waiter, peer, time.Now()})
}

// settle looks at the peers of past answers and tells the actor of those that
// have read theirs, before it gets the call that made us look.
func (d *deliveries) settle(mail *mailbox) {
	d.mu.Lock()
	list := d.list
	d.list = nil
	d.mu.Unlock()
	var open []delivery
	for _, one := range list {
		if one.peer.Delivered() {
			mail.put(thread.Delivered{Waiter: one.waiter})
		} else if time.Since(one.at) <= deliveryWindow {
			open = append(open, one)
		}
	}
	d.mu.Lock()
	d.list = append(open, d.list...)
	d.mu.Unlock()
}

// maxNativeChecks is how many native calls of one thread are checked at once;
// more than can wait for the page anyway.
const maxNativeChecks = 32

// nativeCall checks a call that came over the provider's own channel, beside the
// actor, and then hands it in like any other.
func (a *actor) nativeCall(f thread.Frame) {
	refuse := func(err error) {
		a.runner.add(thread.Effect{Kind: thread.EffectAnswerTool, Turn: f.Turn, CallID: f.Call.CallID, Answer: thread.ToolAnswer{Error: fault.From(err)}})
	}
	if f.Turn != a.state.TurnID() {
		refuse(fault.New(fault.ThreadBusy, "The turn of this tool call is over."))
		return
	}
	if a.natives.Add(1) > maxNativeChecks {
		a.natives.Add(-1)
		refuse(fault.New(fault.PendingToolRequestExists, "Too many tool calls of this thread wait already.").With("threadId", a.id))
		return
	}
	a.svc.spawn(func() {
		defer a.natives.Add(-1)
		defer func() {
			if p := recover(); p != nil {
				a.svc.panicked(p, "the check of a tool call")
				refuse(internal())
			}
		}()
		call, err := a.tools.Check(f.Call.Name, f.Call.Args)
		if err != nil {
			refuse(err)
			return
		}
		in := newCall(a.svc.cfg.Now(), f.Call.CallID, f.Call.Name, call)
		in.Native = true
		a.mail.put(in)
	})
}
