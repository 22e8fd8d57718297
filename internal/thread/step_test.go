package thread

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// variants are inputs of every type, with the values that a state might tell
// apart. The turn that runs has the id 1.
func variants() []Input {
	err := fault.New(fault.ProviderRequestFailed, "No.")
	lost := fault.New(fault.ProviderSessionLost, "Unknown.")
	ins := []Input{
		send(7, "new", "text"), send(7, "new", ""), send(7, "op", "hello"), send(7, "op", "other"), prepare(7, "new"), prepare(7, "op"),
		send(7, "", ""), Admit{Caller: 7}, Admit{Caller: 7, OperationID: "new", Kind: User, Leaving: true},
		Cancel{Caller: 7}, Cancel{Caller: 7, OperationID: "op"}, Cancel{Caller: 7, OperationID: "other"}, Cancel{},
		End{Caller: 7}, End{}, Resume{Caller: 7}, Resume{}, Delete{Caller: 7}, Delete{}, Stage{Caller: 7, Name: "f"}, Stage{},
		Expire{Caller: 7}, Expire{Caller: 7, UpdatedAt: noon}, Expire{},
		WorkspaceChecked{}, WorkspaceChecked{Err: err}, WatchersChanged{}, WatchersChanged{Count: 1}, WatchersChanged{Count: -1},
		Settle{}, Shutdown{}, tokens(0), tokens(1), tokens(^uint64(0)), sessionTokens(5), FrameArrived{},
		TimerFired{}, TimerFired{Timer: 99, Turn: 1},
	}
	ins = append(ins, toolVariants()...)
	for turn := range uint64(3) {
		ins = append(ins,
			Attached{Turn: turn}, Attached{Turn: turn, SessionID: "s9", Fresh: true}, Attached{Turn: turn, SessionID: "s9", Fresh: true, Lost: lost},
			Attached{Turn: turn, SessionID: "s1"}, Attached{Turn: turn, Lost: lost}, Attached{Turn: turn, Err: err}, Attached{Turn: turn, Err: lost},
			Started{Turn: turn}, Started{Turn: turn, Err: err},
			BlockReserved{Turn: turn}, BlockReserved{Turn: turn, End: 1}, BlockReserved{Turn: turn, End: 1 << 40},
			Doom{Turn: turn, Err: err}, Doom{Turn: turn},
			delta(turn, ""), delta(turn, "x"), delta(turn, strings.Repeat("long ", 40_000)), message(turn, ""), message(turn, PrepareAck),
			finished(turn, OutcomeSuccess), finished(turn, OutcomeFailed), finished(turn, OutcomeCancelled), finished(turn, 0), failed(turn, err), failed(turn, lost),
			FrameArrived{Frame{Kind: FrameActivity, Turn: turn}}, FrameArrived{Frame{Kind: FrameToolCall, Turn: turn}},
			FrameArrived{Frame{Kind: FrameGone, Turn: turn}}, FrameArrived{Frame{Kind: FrameGone, Turn: turn, Err: err}},
			FrameArrived{Frame{Kind: FrameUsage, Turn: turn}}, FrameArrived{Frame{Kind: 200, Turn: turn}},
		)
		for timer := TimerStart; timer <= TimerTool; timer++ {
			ins = append(ins, fired(timer, turn))
		}
	}
	return ins
}

// toolVariants meet the calls that makePlace puts into a turn: one that is out,
// two that wait and two that are over.
func toolVariants() []Input {
	big := `"` + strings.Repeat("x", MaxToolResult) + `"`
	return []Input{
		CallTool{RequestID: "new"}, CallTool{Caller: 7, RequestID: "new"}, call(7, "new", "new"), call(7, "new", "out"), call(7, "new", "queued"), call(7, "new", "over"),
		callWithID(7, "new", "new", "out"), callWithID(7, "new", "queued-id", "other"), callWithID(7, "new", "over-id", "other"),
		nativeCall("new", "new", "new"), nativeCall("new", "queued-id", "queued"), nativeCall("new", "out-id", "out"),
		SubmitToolResult{}, SubmitToolResult{Caller: 7}, submit(7, "out", "1"), submit(0, "out", "1"), submit(7, "out", big), submit(0, "out", big),
		submit(7, "out", `"`+strings.Repeat("x", maxToldResult)+`"`), submit(7, "over", "1"), submit(7, "over", "2"), submit(7, "queued", "1"),
		Delivered{}, Delivered{Waiter: 31}, Delivered{Waiter: 32}, Delivered{Waiter: 99},
	}
}

// place is a state to step from, with its name. Settled ones are held to the
// rules; those that wait for Settle are only held to not panic.
type place struct {
	name    string
	s       State
	settled bool
}

// places walks every status, in a turn with every phase and verdict, for both
// kinds of operation, threads that end by themselves, sessions, and callers.
func places(t *testing.T) iter.Seq[place] {
	return func(yield func(place) bool) {
		for _, status := range Statuses {
			for _, kind := range []OperationKind{User, Prepare} {
				for bits := range 1 << 3 {
					for _, tn := range turnsIn(status) {
						if !yield(makePlace(t, status, kind, tn, bits)) {
							return
						}
					}
				}
			}
		}
	}
}

// turnsIn lists the turns that a status may have. Phase 0 in a turn is that of
// an earlier daemon.
func turnsIn(status Status) []turn {
	if !status.InTurn() {
		return []turn{{}}
	}
	turns := []turn{{}}
	for ph := attaching; ph <= sent; ph++ {
		for v := undecided; v <= verdictEnd; v++ {
			turns = append(turns, turn{id: 1, phase: ph, verdict: v})
		}
	}
	return turns
}

func makePlace(t *testing.T, status Status, kind OperationKind, tn turn, bits int) place {
	s := newScene(t).s
	s.Status = status
	s.AutoEnd = bits&1 != 0
	if bits&2 != 0 {
		s.Session = ProviderSession{ID: "s1", Resumable: true, Instructed: true, UserTurn: true}
		s.Usage = Usage{Known: true, TotalTokens: 50}
	}
	callers := bits&4 != 0
	if callers && !status.InTurn() {
		s.resuming = []CallerID{50, 51}
	}
	s.Operations = []Admitted{{ID: "op", Kind: kind, Hash: HashText("hello")}}
	crashed := status.InTurn() && tn.id == 0
	if status.InTurn() && !(crashed && callers) { // a crashed thread that is about to end may have no operation
		s.Active = &ActiveOperation{ID: "op", Kind: kind, StartedAt: noon}
		s.BlockEnd = s.LatestSeq + SequenceBlock
	}
	if crashed {
		s.Instance = earlier
	}
	if tn.id != 0 {
		s.turns = 1
		tn.operation = Operation{ID: "op", Kind: kind}
		tn.open = []byte("begun")
		if tn.verdict == verdictDoomed {
			tn.doom = fault.New(fault.Overloaded, "Too much.")
		}
		if tn.verdict >= verdictCancel && callers {
			tn.cancels = []CallerID{60}
		}
		if tn.verdict == verdictEnd && callers {
			tn.enders = []CallerID{70}
		}
		s.turn = tn
		if tn.verdict == undecided && kind == User {
			addCalls(&s, callers)
		}
	}
	name := fmt.Sprintf("%s %s phase %d verdict %d bits %03b", status, kind, tn.phase, tn.verdict, bits)
	return place{name: name, s: s, settled: checkState(s) == nil}
}

// addCalls gives a turn calls that are out, wait and are over: with waiters, or
// native ones.
func addCalls(s *State, callers bool) {
	s.toolOrdinal = 1
	s.answered = []answeredRequest{{requestID: "over", result: hashResult(jsontext.Value("1")), at: noon}}
	b := &s.turn.tools
	b.finished = []finishedCall{
		{call: made(call(0, "over", "over"), 31, 32), answer: ToolAnswer{Result: jsontext.Value("1")}, at: noon, unknown: []CallerID{31, 32}},
		{call: made(callWithID(0, "over2", "over-id", "over"), 33), answer: ToolAnswer{Error: fault.New(fault.ToolTimeout, "Late.")}, at: noon, unknown: []CallerID{33}},
	}
	if s.Status != WaitingToolResult {
		return
	}
	if callers {
		b.out = made(call(0, "out", "out"), 41, 42)
		b.queue = []*toolCall{made(call(0, "queued", "queued"), 43), made(nativeCall("queued2", "queued-id", "queued"))}
		return
	}
	b.out = made(nativeCall("out", "out-id", "out"))
}

func made(in CallTool, waiters ...CallerID) *toolCall {
	return &toolCall{
		requestID: in.RequestID, name: in.Name, args: in.Args, key: in.Key, callID: in.CallID, native: in.Native,
		waiters: waiters, timeout: in.Timeout, createdAt: noon,
	}
}

func TestStepIsTotal(t *testing.T) {
	ins := variants()
	all, settled := 0, 0
	for p := range places(t) {
		all++
		if p.settled {
			settled++
		}
		for _, in := range ins {
			totalStep(t, p, in)
		}
	}
	t.Logf("%d inputs at %d places, %d of them held to the rules", len(ins), all, settled)
	if settled < 200 {
		t.Errorf("only %d places are held to the rules", settled)
	}
}

func totalStep(t *testing.T, p place, in Input) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%s: %T%+v panics: %v", p.name, in, in, r)
		}
	}()
	var out Output
	after := Step(p.s, in, noon, &out)
	Refuse(p.s, in)
	after.Snapshot()
	if !p.settled {
		return
	}
	if err := checkStep(p.s, in, after, &out); err != nil {
		t.Fatalf("%s: %T%+v: %v", p.name, in, in, err)
	}
}

// TestVariantsCoverEveryInput reads the closed set of inputs from the source.
func TestVariantsCoverEveryInput(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "input.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, in := range variants() {
		covered[strings.TrimPrefix(fmt.Sprintf("%T", in), "thread.")] = true
	}
	found := 0
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != "input" {
			continue
		}
		found++
		if name := f.Recv.List[0].Type.(*ast.Ident).Name; !covered[name] {
			t.Errorf("no variant of %s", name)
		}
	}
	if found != len(covered) {
		t.Errorf("%d inputs in the source, %d covered", found, len(covered))
	}
}

func TestResetEmptiesAnOutputAndKeepsItsMemory(t *testing.T) {
	sc := newScene(t).running()
	var out Output
	Step(sc.s, End{Caller: 7}, noon, &out)
	out.Delete, out.Drop, out.Operations = true, []string{"x"}, []Operation{{}}
	events, effects := cap(out.Events), cap(out.Effects)
	out.Reset()
	if out.Durable || out.Delete || len(out.Events)+len(out.Effects)+len(out.Replies)+len(out.Drop)+len(out.Operations) > 0 {
		t.Errorf("left over: %+v", out)
	}
	if cap(out.Events) != events || cap(out.Effects) != effects {
		t.Error("the memory is gone")
	}
	if ev := out.Events[:1][0]; ev.Kind != 0 || ev.OperationID != "" {
		t.Errorf("the memory still holds %+v", ev)
	}
}

func TestCommitCarriesAllThatIsStored(t *testing.T) {
	sc := newScene(t).step(send(7, "op", "x"))
	c := sc.last.Commit(&sc.s)
	if c.Create || c.Record.Revision != 2 || c.Record.Status != Running || len(c.Events) != 1 || len(c.Operations) != 1 || c.Record.Instance != self {
		t.Errorf("commit %+v", c)
	}
}

// TestDeltasCostAtMostOneAllocation guards the hot path. What remains is the
// growth of the open text's memory, which is spread over many deltas.
func TestDeltasCostAtMostOneAllocation(t *testing.T) {
	s, in, out := streaming(t)
	allocs := testing.AllocsPerRun(20_000, func() {
		out.Reset()
		s = Step(s, in, noon, &out)
	})
	if allocs > 1 {
		t.Errorf("%v allocations a delta", allocs)
	}
	if len(out.Events) != 1 {
		t.Errorf("%d events of the last delta", len(out.Events))
	}
}

// streaming returns a state in a turn with numbers to spare, and a delta for it.
func streaming(t testing.TB) (State, Input, Output) {
	sc := newScene(t).running()
	sc.s.BlockEnd = 1 << 60
	return sc.s, delta(1, "a few words of text "), Output{}
}

func BenchmarkStepDelta(b *testing.B) {
	s, in, out := streaming(b)
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		s = Step(s, in, noon, &out)
	}
}

// BenchmarkAppendText is the baseline of BenchmarkStepDelta: the text alone.
func BenchmarkAppendText(b *testing.B) {
	var open []byte
	b.ReportAllocs()
	for b.Loop() {
		open = appendOpen(open, "a few words of text ")
	}
}

func BenchmarkStepTurn(b *testing.B) {
	sc := newScene(b).talked()
	s := sc.s
	var out Output
	step := func(in Input) {
		out.Reset()
		s = Step(s, in, noon, &out)
	}
	b.ReportAllocs()
	for b.Loop() {
		step(send(7, "next", "text"))
		step(Attached{Turn: s.TurnID(), SessionID: "s1"})
		step(Started{Turn: s.TurnID()})
		step(message(s.TurnID(), "Hi"))
		step(finished(s.TurnID(), OutcomeSuccess))
		s.Operations = s.Operations[:1]
	}
}
