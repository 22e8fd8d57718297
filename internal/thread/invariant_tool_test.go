package thread

import (
	"fmt"
	"slices"
)

// openCalls lists the calls that have no answer yet.
func openCalls(s State) []*toolCall {
	b := &s.turn.tools
	if b.out == nil {
		return b.queue
	}
	return append([]*toolCall{b.out}, b.queue...)
}

// checkBroker checks the tool calls of one state.
func checkBroker(s State) error {
	b := &s.turn.tools
	switch {
	case (s.Status == WaitingToolResult) != (b.out != nil):
		return fmt.Errorf("status %s, request out: %v", s.Status, b.out)
	case (b.out != nil) != (s.Snapshot().PendingTool != nil):
		return fmt.Errorf("request out: %v, the snapshot shows %v", b.out, s.Snapshot().PendingTool)
	case b.out == nil && len(b.queue) > 0:
		return fmt.Errorf("%d calls wait although no request is out", len(b.queue))
	case b.out != nil && (s.Active.Kind == Prepare || s.turn.verdict != undecided):
		return fmt.Errorf("a request is out in a %s with verdict %d", s.Active.Kind, s.turn.verdict)
	case s.Active == nil && len(b.finished) > 0:
		return fmt.Errorf("%d finished calls are left of a turn", len(b.finished))
	case len(b.queue) > MaxQueuedCalls || len(b.finished) > maxFinishedToKeep || len(s.answered) > maxAnsweredKept:
		return fmt.Errorf("%d calls wait, %d finished and %d answered are remembered", len(b.queue), len(b.finished), len(s.answered))
	}
	return nil
}

// pageModel is the request that a page knows of: it follows the events alone.
type pageModel struct {
	out     string // request id; "" = none; announced = its tool_call follows
	closing string // closed by the status before this event, which said that its group goes on
}

const announced = "announced"

// see takes one event. A request is told in one group with waitingToolResult
// and closed by the next other status; a result comes in that one's group.
func (p *pageModel) see(ev Event) error {
	closing := p.closing
	p.closing = ""
	switch ev.Kind {
	case EventStatusChanged:
		if p.out == announced {
			return fmt.Errorf("waitingToolResult without a tool_call")
		}
		if ev.Status == WaitingToolResult {
			if p.out != "" || !ev.Grouped {
				return fmt.Errorf("waitingToolResult, grouped %t, while %q is out", ev.Grouped, p.out)
			}
			p.out = announced
			return nil
		}
		if ev.Grouped {
			p.closing = p.out
		}
		p.out = ""
	case EventToolCall:
		if p.out != announced || ev.RequestID == "" || ev.Grouped {
			return fmt.Errorf("tool_call %q, grouped %t, while %q is out", ev.RequestID, ev.Grouped, p.out)
		}
		p.out = ev.RequestID
	case EventToolResult:
		if ev.RequestID == "" || closing != ev.RequestID || ev.Grouped {
			return fmt.Errorf("tool_result of %q, the status before it closes %q", ev.RequestID, closing)
		}
	case EventOperationCompleted:
		// A group may tell the outcome before the status.
	default:
		if p.out == announced {
			return fmt.Errorf("%s between waitingToolResult and tool_call", ev.Kind)
		}
	}
	return nil
}

// checkRequests checks that a page that follows the events knows which request
// is out.
func checkRequests(before, after State, out *Output) error {
	var page pageModel
	if c := before.turn.tools.out; c != nil {
		page.out = c.requestID
	}
	for _, ev := range out.Events {
		if err := page.see(ev); err != nil {
			return err
		}
	}
	want := ""
	if c := after.turn.tools.out; c != nil {
		want = c.requestID
	}
	if page.out != want {
		return fmt.Errorf("the events say that %q is out, the state %q", page.out, want)
	}
	return nil
}

// checkNativeCalls checks that each native call is answered exactly once.
func checkNativeCalls(before State, in Input, after State, out *Output) error {
	native := func(calls []*toolCall) (ids []string) {
		for _, c := range calls {
			if c.native {
				ids = append(ids, c.callID)
			}
		}
		return ids
	}
	asked := native(openCalls(before))
	if in, ok := in.(CallTool); ok && in.Native {
		joins := slices.ContainsFunc(openCalls(before), func(c *toolCall) bool { return c.native && c.matches(&in) })
		if !joins {
			asked = append(asked, in.CallID)
		}
	}
	answered := native(openCalls(after))
	for _, e := range out.Effects {
		if e.Kind == EffectAnswerTool {
			answered = append(answered, e.CallID)
		}
	}
	slices.Sort(asked)
	slices.Sort(answered)
	if !slices.Equal(asked, answered) {
		return fmt.Errorf("native calls before: %v; answered or still open: %v", asked, answered)
	}
	return nil
}

// armedTimers is what an owner has armed, as far as the effects say.
type armedTimers map[Timer]uint64

func (a armedTimers) follow(effects []Effect) {
	for _, e := range effects {
		switch e.Kind {
		case EffectArm:
			a[e.Timer] = e.Turn
		case EffectDisarm:
			delete(a, e.Timer)
		}
	}
}

// check says whether the clocks that depend on a tool request run as they must:
// the request's own while it is out, the provider's silence while it is not.
func (a armedTimers) check(s State) error {
	ordinal, tool := a[TimerTool]
	if out := s.turn.tools.out != nil; tool != out || tool && ordinal != s.toolOrdinal {
		return fmt.Errorf("request out: %t with ordinal %d; its timer armed: %t for %d", out, s.toolOrdinal, tool, ordinal)
	}
	_, silence := a[TimerSilence]
	if want := s.turn.phase == sent && s.turn.verdict == undecided && s.turn.tools.out == nil; silence != want {
		return fmt.Errorf("the silence watchdog is armed: %t, want %t", silence, want)
	}
	return nil
}
