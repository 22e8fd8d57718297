package thread

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

const (
	self    = "instance-b" // the daemon that steps
	earlier = "instance-a" // one that ran before
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// scene steps one thread and keeps everything that followed, in words.
type scene struct {
	t       testing.TB
	s       State
	now     time.Time
	events  []string
	effects []string
	replies []string
	armed   armedTimers
	last    Output // of the last input
}

// newScene has a thread as create_thread leaves it: idle, two events told.
func newScene(t testing.TB, changes ...func(*Record)) *scene {
	t.Helper()
	rec := Record{
		ID: "t1", Revision: 1, Instance: self, Provider: OpenCode, Effort: DefaultEffort,
		Workspace: Workspace{Path: "/w"}, CreatedAt: noon, UpdatedAt: noon,
		Status: Idle, LatestSeq: 2,
	}
	for _, change := range changes {
		change(&rec)
	}
	return &scene{t: t, s: NewState(Loaded{Record: rec}, Operation{}, self), now: noon, armed: armedTimers{}}
}

func managed(r *Record) { r.Workspace.Managed, r.Workspace.Instance = true, self }

func autoEnd(r *Record) { r.AutoEnd = true }

// step applies inputs, a second apart, and checks what must hold after each.
func (sc *scene) step(ins ...Input) *scene {
	sc.t.Helper()
	for _, in := range ins {
		sc.now = sc.now.Add(time.Second)
		before := sc.s
		var out Output
		sc.s = Step(before, in, sc.now, &out)
		if err := checkStep(before, in, sc.s, &out); err != nil {
			sc.t.Fatalf("after %T%+v: %v", in, in, err)
		}
		sc.armed.follow(out.Effects)
		if err := sc.armed.check(sc.s); err != nil {
			sc.t.Fatalf("after %T%+v: %v", in, in, err)
		}
		sc.last = out
		for _, ev := range out.Events {
			sc.events = append(sc.events, eventWordsOf(ev))
		}
		for _, e := range out.Effects {
			sc.effects = append(sc.effects, effectWordsOf(e))
		}
		for _, r := range out.Replies {
			sc.replies = append(sc.replies, replyWordsOf(r))
		}
	}
	return sc
}

// forget drops what was collected, so that a test tells only of what follows.
func (sc *scene) forget() *scene {
	sc.events, sc.effects, sc.replies = nil, nil, nil
	return sc
}

func (sc *scene) wantEvents(want ...string) *scene {
	sc.t.Helper()
	sc.same("events", want, sc.events)
	return sc
}

func (sc *scene) wantEffects(want ...string) *scene {
	sc.t.Helper()
	sc.same("effects", want, sc.effects)
	return sc
}

func (sc *scene) wantReplies(want ...string) *scene {
	sc.t.Helper()
	sc.same("replies", want, sc.replies)
	return sc
}

func (sc *scene) wantStatus(want Status) *scene {
	sc.t.Helper()
	if sc.s.Status != want {
		sc.t.Errorf("status %s, want %s", sc.s.Status, want)
	}
	return sc
}

func (sc *scene) same(what string, want, got []string) {
	sc.t.Helper()
	if len(want) == 0 && len(got) == 0 {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		sc.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// eventWordsOf writes an event as "seq kind words [op=id] [+]"; + says that the
// next one belongs to the same group.
func eventWordsOf(ev Event) string {
	words := []string{fmt.Sprint(ev.Seq), ev.Kind.String()}
	switch ev.Kind {
	case EventStatusChanged:
		words = append(words, ev.Status.String())
	case EventAssistantDelta, EventAssistantMessage:
		words = append(words, fmt.Sprintf("%q", ev.Text))
	case EventToolCall:
		words = append(words, ev.RequestID, ev.ToolName, string(ev.Args))
	case EventToolResult:
		words = append(words, ev.RequestID, ev.ToolName, string(ev.Result))
		if ev.ResultTruncated {
			words = append(words, "truncated")
		}
	case EventProviderSessionIDUpdated:
		words = append(words, ev.ProviderSessionID)
	case EventUsageUpdated:
		words = append(words, fmt.Sprint(ev.TotalTokens))
	case EventOperationCompleted:
		words = append(words, ev.OperationKind.String(), fmt.Sprint(ev.Success))
	case EventError:
		if ev.Source == 0 {
			words = append(words, "core")
		} else {
			words = append(words, ev.Source.String())
		}
	}
	if ev.Error != nil {
		words = append(words, string(ev.Error.Code))
	}
	if ev.OperationID != "" {
		words = append(words, "op="+ev.OperationID)
	}
	if ev.Part.Count > 0 {
		words = append(words, fmt.Sprintf("part=%d/%d", ev.Part.Index, ev.Part.Count))
	}
	if ev.Grouped {
		words = append(words, "+")
	}
	return strings.Join(words, " ")
}

var effectNames = map[EffectKind]string{
	EffectAttach: "attach", EffectStartTurn: "start", EffectCancelTurn: "cancel", EffectAbandon: "abandon",
	EffectAbort: "abort", EffectCloseSession: "close", EffectAnswerTool: "answer-tool",
	EffectCheckWorkspace: "check-workspace", EffectReserveBlock: "reserve", EffectArm: "arm", EffectDisarm: "disarm",
}

var timerNames = map[Timer]string{
	TimerStart: "start", TimerSilence: "silence", TimerStop: "stop", TimerSession: "session", TimerAutoEnd: "autoEnd", TimerTool: "tool",
}

func effectWordsOf(e Effect) string {
	words := []string{effectNames[e.Kind]}
	if e.Timer != 0 {
		words = append(words, timerNames[e.Timer])
	}
	if e.Turn != 0 {
		words = append(words, fmt.Sprintf("turn=%d", e.Turn))
	}
	if e.Wait != 0 {
		words = append(words, e.Wait.String())
	}
	if e.BlockEnd != 0 {
		words = append(words, fmt.Sprint(e.BlockEnd))
	}
	if e.Kind == EffectAnswerTool {
		words = append(words, e.CallID, answerWordsOf(e.Answer))
	}
	if e.Kind == EffectStartTurn {
		words = append(words, e.Purpose.String(), fmt.Sprintf("%q", e.Text))
	}
	return strings.Join(words, " ")
}

func answerWordsOf(a ToolAnswer) string {
	if a.Error != nil {
		return string(a.Error.Code)
	}
	return string(a.Result)
}

func replyWordsOf(r Reply) string {
	who := fmt.Sprintf("%d ", r.Caller)
	if r.Err != nil {
		return who + string(r.Err.Code)
	}
	switch v := r.Value.(type) {
	case nil:
		return who + "done"
	case Admission:
		return fmt.Sprintf("%sadmitted %s alreadyPrepared=%t replayed=%t", who, v.OperationID, v.AlreadyPrepared, v.Replayed)
	case Cancellation:
		return fmt.Sprintf("%scancelled=%t %q", who, v.Cancelled, v.OperationID)
	case Snapshot:
		return who + "snapshot " + v.Status.String()
	case jsontext.Value:
		return who + string(v)
	}
	return fmt.Sprintf("%s%T", who, r.Value)
}

// Inputs in short.

func send(c CallerID, id, text string) Input {
	return Admit{Caller: c, Kind: User, OperationID: id, Text: text}
}

func prepare(c CallerID, id string) Input {
	return Admit{Caller: c, Kind: Prepare, OperationID: id}
}

func delta(turn uint64, text string) Input {
	return FrameArrived{Frame{Kind: FrameDelta, Turn: turn, Text: text}}
}

func message(turn uint64, text string) Input {
	return FrameArrived{Frame{Kind: FrameMessage, Turn: turn, Text: text}}
}

func finished(turn uint64, o Outcome) Input {
	return FrameArrived{Frame{Kind: FrameFinished, Turn: turn, Outcome: o}}
}

func failed(turn uint64, err *fault.Error) Input {
	return FrameArrived{Frame{Kind: FrameFinished, Turn: turn, Outcome: OutcomeFailed, Err: err}}
}

func gone() Input {
	return FrameArrived{Frame{Kind: FrameGone, Err: fault.New(fault.ProviderRuntimeDisconnected, "It is gone.")}}
}

func tokens(n uint64) Input {
	return FrameArrived{Frame{Kind: FrameUsage, Usage: UsageReport{Tokens: n}}}
}

func sessionTokens(n uint64) Input {
	return FrameArrived{Frame{Kind: FrameUsage, Usage: UsageReport{Tokens: n, Cumulative: true}}}
}

func fresh(turn uint64, id string) Input { return Attached{Turn: turn, SessionID: id, Fresh: true} }

func fired(timer Timer, turn uint64) Input { return TimerFired{Timer: timer, Turn: turn} }

// call is a call of the tool "paint" without a call id. The same text counts as
// equal arguments.
func call(c CallerID, request, args string) CallTool {
	return CallTool{
		Caller: c, RequestID: request, Name: "paint", Args: jsontext.Value(args),
		Key: sha256.Sum256([]byte("paint" + args)), Timeout: time.Minute,
	}
}

// callWithID is a call that carries the provider's own id.
func callWithID(c CallerID, request, callID, args string) CallTool {
	in := call(c, request, args)
	in.CallID = callID
	return in
}

// nativeCall is a call whose answer goes to the runtime.
func nativeCall(request, callID, args string) CallTool {
	in := callWithID(0, request, callID, args)
	in.Native = true
	return in
}

func submit(c CallerID, request, result string) SubmitToolResult {
	return SubmitToolResult{Caller: c, RequestID: request, Result: jsontext.Value(result)}
}

// Places from which tests begin. Each forgets how it got there. The turn is 1,
// its operation "op", unless the place says otherwise.

func (sc *scene) attaching() *scene { return sc.step(send(90, "op", "hello")).forget() }

func (sc *scene) starting() *scene { return sc.attaching().step(fresh(1, "s1")).forget() }

func (sc *scene) running() *scene { return sc.starting().step(Started{Turn: 1}).forget() }

// calling has one native call out; its request is "r1", its call id "c1".
func (sc *scene) calling() *scene { return sc.running().step(nativeCall("r1", "c1", `{}`)).forget() }

func (sc *scene) cancelling(c CallerID) *scene { return sc.running().step(Cancel{Caller: c}).forget() }

func (sc *scene) stopping(c CallerID) *scene { return sc.running().step(End{Caller: c}).forget() }

func (sc *scene) failed() *scene {
	return sc.running().step(failed(1, fault.New(fault.ProviderRequestFailed, "No."))).forget()
}

func (sc *scene) ended() *scene { return sc.step(End{Caller: 91}).forget() }

// talked has a thread with one user turn behind it, so it counts as prepared.
func (sc *scene) talked() *scene { return sc.running().step(finished(1, OutcomeSuccess)).forget() }

func (sc *scene) preparing() *scene {
	return sc.step(prepare(90, "op"), fresh(1, "s1"), Started{Turn: 1}).forget()
}

// prefix numbers lines of events from a sequence number on.
func numbered(from uint64, lines ...string) []string {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i] = fmt.Sprintf("%d %s", from+uint64(i), lines[i])
	}
	return lines
}
