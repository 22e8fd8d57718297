package thread

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// toolWalk is the tools' side of a walk: agents that call, and a page that gives
// each request its own arguments as the result. So whoever gets a result can tell
// whether it is the right one.
type toolWalk struct {
	page     pageModel
	calls    map[CallerID]string // arguments of the calls without an answer, by who waits
	native   map[string]string   // arguments, by call id
	answers  []CallerID          // whose results may not have arrived, oldest first
	requests int
}

func newToolWalk() toolWalk {
	return toolWalk{calls: map[CallerID]string{}, native: map[string]string{}}
}

// asked notes a caller's call.
func (tw *toolWalk) asked(in Input) {
	if in, ok := in.(CallTool); ok {
		tw.calls[in.Caller] = string(in.Args)
	}
}

// answered takes the reply to a call.
func (tw *toolWalk) answered(r Reply) error {
	args, called := tw.calls[r.Caller]
	if !called {
		return nil
	}
	delete(tw.calls, r.Caller)
	tw.answers = append(tw.answers, r.Caller)
	if r.Err != nil {
		return nil
	}
	if got, ok := r.Value.(jsontext.Value); !ok || string(got) != args {
		return fmt.Errorf("caller %d called with %s and got %v", r.Caller, args, r.Value)
	}
	return nil
}

// answeredNatively takes the effects that answer a runtime's calls.
func (tw *toolWalk) answeredNatively(effects []Effect) error {
	for _, e := range effects {
		if e.Kind == EffectAnswerTool && e.Answer.Error == nil && string(e.Answer.Result) != tw.native[e.CallID] {
			return fmt.Errorf("native call %s with %s got %s", e.CallID, tw.native[e.CallID], e.Answer.Result)
		}
	}
	return nil
}

// agrees reports whether the page knows the request that a snapshot shows.
func (tw *toolWalk) agrees(s *State) error {
	shown := ""
	if p := s.Snapshot().PendingTool; p != nil {
		shown = p.RequestID
	}
	if shown != tw.page.out {
		return fmt.Errorf("the page believes that %q is out, the snapshot shows %q", tw.page.out, shown)
	}
	return nil
}

var tooLarge = jsontext.Value(`"` + strings.Repeat("x", MaxToolResult) + `"`)

// toolInput draws something that an agent, a page or their clock does.
func (w *walk) toolInput() Input {
	caller, tw := w.callers+1, &w.tools
	tw.requests++
	request := fmt.Sprintf("d%d-r%d", w.instance, tw.requests)
	args := fmt.Sprint(rapid.IntRange(0, 30).Draw(w.t, "args") / 3)
	id := fmt.Sprintf("d%d-c%d", w.instance, rapid.IntRange(0, 5).Draw(w.t, "callID"))
	ids := `"` + id + `"` // a call id always comes with the same arguments
	switch kind := rapid.IntRange(0, 12).Draw(w.t, "tool"); {
	case kind <= 3:
		return call(caller, request, args)
	case kind == 4:
		return callWithID(caller, request, id, ids)
	case kind == 5:
		tw.native["n"+id] = ids
		return nativeCall(request, "n"+id, ids)
	case kind == 6:
		ordinal := w.s.toolOrdinal
		return fired(TimerTool, uint64(rapid.IntRange(max(0, int(ordinal)-1), int(ordinal)+1).Draw(w.t, "ordinal")))
	case kind == 7 && len(tw.answers) > 0:
		who := rapid.SampledFrom(tw.answers[max(0, len(tw.answers)-4):]).Draw(w.t, "delivered")
		tw.answers = slices.DeleteFunc(tw.answers, func(c CallerID) bool { return c == who })
		return Delivered{Waiter: who}
	case kind == 8 && len(w.s.answered) > 0:
		return submit(caller, rapid.SampledFrom(w.s.answered).Draw(w.t, "again").requestID, args)
	case kind == 9 && rapid.IntRange(0, 2).Draw(w.t, "over") == 0:
		return w.over(caller)
	}
	out := w.s.turn.tools.out
	if out == nil {
		return submit(caller, request, args)
	}
	if rapid.IntRange(0, 9).Draw(w.t, "large") == 0 {
		return SubmitToolResult{Caller: caller, RequestID: out.requestID, Result: tooLarge}
	}
	return SubmitToolResult{Caller: caller, RequestID: out.requestID, Result: out.args}
}

// over draws something that ends the turn, or is the beginning of its end.
func (w *walk) over(caller CallerID) Input {
	turn := w.s.turn.id
	return rapid.SampledFrom([]Input{
		Cancel{Caller: caller}, Cancel{}, End{Caller: caller}, Shutdown{}, gone(), Doom{Turn: turn},
		finished(turn, OutcomeSuccess), finished(turn, OutcomeFailed), fired(TimerStart, turn), fired(TimerSilence, turn),
	}).Draw(w.t, "end")
}
