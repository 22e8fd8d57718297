package thread

import (
	"crypto/sha256"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// CheckToolCall returns why a thread takes no tool calls now, or nil.
func (s *State) CheckToolCall() *fault.Error {
	refusal := func(code fault.Code, msg string) *fault.Error {
		return fault.New(code, msg).With("threadId", s.ID)
	}
	switch {
	case s.leaving:
		return refusal(fault.CoreRuntimeUnavailable, "The daemon is shutting down.")
	case s.Status == Ended:
		return refusal(fault.ThreadEnded, "The thread has ended.")
	case s.Active == nil || s.Status == Stopping:
		return refusal(fault.ThreadBusy, "The thread runs no turn in which a tool could be called.")
	case s.Active.Kind == Prepare:
		return refusal(fault.ProviderProtocolError, "No tool can be called while the session is being prepared.")
	case s.turn.verdict == verdictCancel:
		return refusal(fault.OperationCancelled, "The turn is being cancelled.")
	case s.turn.verdict == verdictDoomed:
		return s.turn.doom
	}
	return nil
}

func (st *stepper) callTool(in *CallTool) {
	if err := st.CheckToolCall(); err != nil {
		st.answerCall(&toolCall{callID: in.CallID, native: in.Native}, in.Caller, ToolAnswer{Error: err})
		return
	}
	b := &st.turn.tools
	if b.out != nil && b.out.matches(in) {
		b.out = b.out.joinedBy(in.Caller)
		return
	}
	if i := slices.IndexFunc(b.queue, func(c *toolCall) bool { return c.matches(in) }); i >= 0 {
		b.queue = slices.Clone(b.queue)
		b.queue[i] = b.queue[i].joinedBy(in.Caller)
		return
	}
	if i := b.replayable(in, st.now); i >= 0 {
		st.replay(i, in)
		return
	}
	call := &toolCall{
		requestID: in.RequestID, name: in.Name, args: in.Args, key: in.Key,
		callID: in.CallID, native: in.Native, waiters: addCaller(nil, in.Caller), timeout: in.Timeout,
	}
	switch {
	case b.out == nil:
		st.sendOut(call)
	case len(b.queue) < MaxQueuedCalls:
		b.queue = append(slices.Clone(b.queue), call)
	default:
		err := st.refusal(fault.PendingToolRequestExists, "Too many tool calls of this thread wait for the page already.")
		st.answerCall(call, in.Caller, ToolAnswer{Error: err})
	}
}

// replay gives an answer again to somebody who asks for the same. It takes the
// place of a waiter whom the answer may not have reached.
func (st *stepper) replay(i int, in *CallTool) {
	b := &st.turn.tools
	f := b.finished[i]
	f.unknown = append(slices.Clone(f.unknown[1:]), in.Caller)
	b.finished = slices.Clone(b.finished)
	b.finished[i] = f
	st.answerCall(&toolCall{callID: in.CallID, native: in.Native}, in.Caller, f.answer)
}

// sendOut tells the page of a call, whose time begins now.
func (st *stepper) sendOut(c *toolCall) {
	out := *c
	out.createdAt = st.now.UTC()
	st.toolOrdinal++
	st.turn.tools.out = &out
	st.Status = WaitingToolResult
	op := st.Active.ID
	st.tellGroup(
		statusEvent(WaitingToolResult, op),
		Event{Kind: EventToolCall, OperationID: op, RequestID: out.requestID, ToolName: out.name, Args: out.args},
	)
	st.do(Effect{Kind: EffectArm, Timer: TimerTool, Turn: st.toolOrdinal, Wait: out.timeout})
	st.disarm(TimerSilence)
}

func (st *stepper) submitToolResult(in SubmitToolResult) {
	out := st.turn.tools.out
	if out == nil || out.requestID != in.RequestID {
		st.resubmitted(in)
		return
	}
	if len(in.Result) > MaxToolResult {
		err := fault.Newf(fault.ToolResultTooLarge, "A tool result may have %d bytes; this one has %d.", MaxToolResult, len(in.Result))
		st.comeBack(ToolAnswer{Error: err})
		st.refuse(in.Caller, err)
		st.nextCall()
		return
	}
	st.rememberAnswered(in)
	op := st.Active.ID
	st.comeBack(ToolAnswer{Result: in.Result})
	result := Event{Kind: EventToolResult, OperationID: op, RequestID: out.requestID, ToolName: out.name, Result: in.Result}
	if len(in.Result) > maxToldResult {
		result.Result, result.ResultTruncated = nil, true
	}
	st.out.Events[len(st.out.Events)-1].Grouped = true
	st.tell(result)
	st.answer(in.Caller, nil)
	st.nextCall()
}

// comeBack answers everybody who waits for the request that is out; the turn
// goes on.
func (st *stepper) comeBack(answer ToolAnswer) {
	out := st.turn.tools.out
	st.turn.tools.out = nil
	st.disarm(TimerTool)
	st.Status = Running
	st.tell(statusEvent(Running, st.Active.ID))
	for _, c := range out.waiters {
		st.answerCall(out, c, answer)
	}
	if out.native {
		st.do(Effect{Kind: EffectAnswerTool, Turn: st.turn.id, CallID: out.callID, Answer: answer})
	}
	st.rememberFinished(out, answer)
	st.turn.lastFrame = st.now
	if st.turn.phase == sent && st.turn.verdict == undecided {
		st.arm(TimerSilence)
	}
}

// nextCall sends out the call that waits longest.
func (st *stepper) nextCall() {
	b := &st.turn.tools
	if b.out != nil || len(b.queue) == 0 {
		return
	}
	call := b.queue[0]
	b.queue = slices.Clone(b.queue[1:])
	st.sendOut(call)
}

// answerCall answers one waiter. A native call without a waiter is answered by
// the runtime.
func (st *stepper) answerCall(c *toolCall, caller CallerID, answer ToolAnswer) {
	switch {
	case caller != 0 && answer.Error != nil:
		st.refuse(caller, answer.Error)
	case caller != 0:
		st.answer(caller, answer.Result)
	case c.native:
		st.do(Effect{Kind: EffectAnswerTool, Turn: st.turn.id, CallID: c.callID, Answer: answer})
	}
}

func (st *stepper) toolTimedOut(ordinal uint64) {
	if st.turn.tools.out == nil || ordinal != st.toolOrdinal {
		return
	}
	st.comeBack(ToolAnswer{Error: fault.New(fault.ToolTimeout, fault.ToolTimeout.Info().Meaning)})
	st.nextCall()
}

// closeTools answers all calls of the turn with the reason why they cannot be
// answered any more.
func (st *stepper) closeTools(reason *fault.Error) {
	b := &st.turn.tools
	calls := b.queue
	if b.out != nil {
		calls = append([]*toolCall{b.out}, calls...)
		st.disarm(TimerTool)
	}
	for _, c := range calls {
		for _, caller := range c.waiters {
			st.refuse(caller, reason)
		}
		if c.native {
			st.do(Effect{Kind: EffectAnswerTool, Turn: st.turn.id, CallID: c.callID, Answer: ToolAnswer{Error: reason}})
		}
	}
	b.out, b.queue, b.finished = nil, nil, nil
}

// interruptTools closes the calls of a turn that is told to stop: a provider
// that waits for a tool could not confirm it.
func (st *stepper) interruptTools(reason *fault.Error) {
	waiting := st.Status == WaitingToolResult
	st.closeTools(reason)
	if waiting {
		st.Status = Running
		st.tell(statusEvent(Running, st.Active.ID))
	}
}

func (st *stepper) rememberFinished(c *toolCall, answer ToolAnswer) {
	b := &st.turn.tools
	kept := slices.DeleteFunc(slices.Clone(b.finished), func(f finishedCall) bool { return st.now.Sub(f.at) > replayWindow })
	if len(kept) >= maxFinishedToKeep {
		kept = kept[1:]
	}
	unknown := c.waiters
	if c.native {
		unknown = append(slices.Clone(unknown), runtimeWaits)
	}
	if len(unknown) > 0 {
		kept = append(kept, finishedCall{call: c, answer: answer, at: st.now, unknown: unknown})
	}
	b.finished = kept
}

// delivered notes that an answer has reached its waiter, who will not ask again.
func (st *stepper) delivered(in Delivered) {
	if in.Waiter == runtimeWaits {
		return
	}
	b := &st.turn.tools
	kept := make([]finishedCall, 0, len(b.finished))
	for _, f := range b.finished {
		if i := slices.Index(f.unknown, in.Waiter); i >= 0 {
			f.unknown = slices.Delete(slices.Clone(f.unknown), i, i+1)
		}
		if len(f.unknown) > 0 {
			kept = append(kept, f)
		}
	}
	b.finished = kept
}

func (st *stepper) rememberAnswered(in SubmitToolResult) {
	kept := slices.DeleteFunc(slices.Clone(st.answered), func(a answeredRequest) bool { return st.now.Sub(a.at) > resubmitWindow })
	if len(kept) >= maxAnsweredKept {
		kept = kept[1:]
	}
	st.answered = append(kept, answeredRequest{requestID: in.RequestID, result: hashResult(in.Result), at: st.now})
}

// resubmitted answers a result for a request that is not out: yes to the same
// result again, no to anything else.
func (st *stepper) resubmitted(in SubmitToolResult) {
	same := slices.ContainsFunc(st.answered, func(a answeredRequest) bool {
		return a.requestID == in.RequestID && a.result == hashResult(in.Result) && st.now.Sub(a.at) <= resubmitWindow
	})
	if same {
		st.answer(in.Caller, nil)
		return
	}
	err := st.refusal(fault.PendingToolRequestNotFound, "No tool call with this id waits for a result.").With("requestId", in.RequestID)
	st.refuse(in.Caller, err)
}

func hashResult(v jsontext.Value) [sha256.Size]byte { return sha256.Sum256(v) }
