package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Program is a provider under test: its driver, and a fake program of its
// protocol.
type Program struct {
	Driver func() provider.Driver // with durations that suit a test
	// Override returns how a fake with these knobs is started.
	Override func(Knobs) provider.Override
	// Script translates a line of a turn's text for the fake; nil = it is one of
	// this package's.
	Script      func(line string) string
	NativeTools bool   // frontend tools are called over the protocol
	UnknownID   string // a conversation that the program never had
	// Unauthorized is the code of a turn that the model's server refused with 401.
	Unauthorized fault.Code
	// Tokens is what the fake's turn costs.
	Tokens uint64
}

// row is one behaviour.
type row struct {
	name string
	run  func(*bench)
}

var rows = []row{
	{"a plain turn", plainTurn},
	{"two messages in a turn", twoMessages},
	{"code points stay whole", codePoints},
	{"an empty answer", emptyAnswer},
	{"a second turn is refused while one runs", busyTurn},
	{"a turn whose caller has left is not sent", callerLeft},
	{"a tool call", toolCall},
	{"a tool call that times out", toolTimeout},
	{"a tool that was not offered", unknownTool},
	{"cancel in text", cancelInText},
	{"cancel in a tool call", cancelInTool},
	{"cancel of another turn changes nothing", cancelOfAnother},
	{"the model's server refuses", providerErrors},
	{"the model's stream is cut", streamCut},
	{"resume in a new process", resumeInNewProcess},
	{"resume of an unknown conversation", resumeUnknown},
	{"the process is killed between turns", killedBetween},
	{"the process is killed in a turn", killedWithin},
	{"a second thread is not disturbed", secondThread},
	{"prepare, right and wrong", prepare},
	{"usage over three turns", usage},
	{"a cancel that is not confirmed hurts nobody else", slowCancel},
	{"a resume that hangs hurts nobody else", hungResume},
	{"closing ends the conversation and nothing comes after", closing},
	{"lines that are no frames", strayLines},
	{"lines that end as on Windows", inTurn("crlf", "say m grüße 日本 🚲")},
	{"code points in pieces", inTurn("bytes", "say m grüße 日本 🚲")},
	{"bytes that are no UTF-8", garbled},
	{"a line of 17 MiB", inTurn("long", "say m grüße 日本 🚲")},
	{"10 MiB on stderr", inTurn("flood", "say m grüße 日本 🚲")},
	{"a banner, blank lines and NULs in a turn", inTurn("noise", "say m grüße 日本 🚲")},
	{"a last line without an end", lastLine},
	{"half a line at the end", lostWith("half")},
	{"output that is closed while the process lives", lostWith("mute")},
	{"a process that is gone while a child holds its output", lostWith("orphan")},
	{"an end of 17 MiB", endTooLong},
	{"a tool call of 17 MiB", callTooLong},
	{"a program that ends at once", failingStart},
}

// Run runs every behaviour.
func Run(t *testing.T, p Program) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(&bench{T: t, p: p})
		})
	}
}

// bench is a rig for one behaviour, made when its knobs are known.
type bench struct {
	T *testing.T
	p Program
	*Rig
}

func (b *bench) start(k Knobs) *Rig {
	k.Dir = b.T.TempDir()
	b.Rig = NewRig(b.T, b.p.Driver(), b.p.Override(k), k.Dir)
	return b.Rig
}

// text makes a turn's text of script lines.
func (b *bench) text(lines ...string) string {
	if b.p.Script != nil {
		lines = slices.Clone(lines)
		for i, line := range lines {
			lines[i] = b.p.Script(line)
		}
	}
	return strings.Join(lines, "\n")
}

// expect runs a turn and compares what was told of it.
func (b *bench) expect(a thread.Attachment, sink *Collector, id uint64, want string, lines ...string) []thread.Frame {
	b.T.Helper()
	frames := b.Turn(a, sink, id, b.text(lines...))
	if got := Told(frames); got != want {
		b.T.Errorf("turn %d:\n got %s\nwant %s", id, got, want)
	}
	return frames
}

func plainTurn(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	if a.SessionID == "" || !a.Fresh || a.Lost != nil || !a.Conversation.Alive() {
		b.T.Errorf("attached %+v", a)
	}
	b.expect(a, sink, 1, "d:Hello | d:, world | m:Hello, world | ok", "say m1 Hello", "say m1 , world")
}

func twoMessages(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:one | m:one | d:two | d: more | m:two more | ok", "say m1 one", "say m2 two", "say m2  more")
}

func codePoints(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:grüße 日本 🚲 | m:grüße 日本 🚲 | ok", "say m grüße 日本 🚲")
}

func emptyAnswer(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "ok", "")
	b.expect(a, sink, 2, "d:x | m:x | ok", "say m x")
}

func busyTurn(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	r.Start(a, 1, b.text("say m x", "wait"))
	sink.Saw("x")
	if err := a.Conversation.StartTurn(r.Ctx, thread.Turn{ID: 2, Text: b.text("say m unwritten")}); !fault.Is(err, fault.ThreadBusy) {
		b.T.Errorf("second turn: %v", err)
	}
	for _, line := range r.Read() {
		if strings.Contains(line, "unwritten") {
			b.T.Errorf("the agent read %s", line)
		}
	}
	r.Cancel(a, 1)
	sink.Finished(1)
}

func callerLeft(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	gone, leave := context.WithCancel(r.Ctx)
	leave()
	err := a.Conversation.StartTurn(gone, thread.Turn{ID: 1, Text: b.text("say m unwritten")})
	if !errors.Is(err, fault.ErrUnsent) || !errors.Is(err, context.Canceled) {
		b.T.Errorf("turn: %v", err)
	}
	b.expect(a, sink, 2, "d:x | m:x | ok", "say m x")
	for _, line := range r.Read() {
		if strings.Contains(line, "unwritten") {
			b.T.Errorf("the agent read %s", line)
		}
	}
}

// tools are what a page offers in these tests; one name is none that models take.
func tools(spec thread.SessionSpec) thread.SessionSpec {
	schema := jsontext.Value(`{"type":"object","properties":{"a":{"type":"number"}}}`)
	spec.Skills = &thread.Skills{Tools: []thread.Tool{
		{Name: "add", Description: "adds", ArgsSchema: schema, Timeout: time.Minute},
		{Name: "canvas.paint", Description: "paints", ArgsSchema: schema, Timeout: time.Minute},
	}}
	return spec
}

// native skips a row about tools for a protocol that does not carry them.
func (b *bench) native() bool {
	if !b.p.NativeTools {
		b.T.Skip("this protocol does not carry frontend tools; they come over the Model Context Protocol")
	}
	return b.p.NativeTools
}

func toolCall(b *bench) {
	b.native()
	r := b.start(Knobs{})
	spec := tools(r.Spec("t1"))
	a, sink := r.Open(spec)
	for id, name := range []string{"add", "canvas.paint"} {
		turn := uint64(id + 1)
		model := thread.ModelNames(spec.Skills.Tools).Model[name]
		r.Start(a, turn, b.text("say m before", "tool "+model+` {"a":7}`, "say n after"))
		call := sink.Called(id)
		if call.Name != name || string(call.Args) != `{"a":7}` || call.CallID == "" {
			b.T.Errorf("call %+v", call)
		}
		if err := a.Conversation.AnswerTool(r.Ctx, call.CallID, thread.ToolAnswer{Result: jsontext.Value(`{"sum":8}`)}); err != nil {
			b.T.Fatal(err)
		}
		if err := a.Conversation.AnswerTool(r.Ctx, call.CallID, thread.ToolAnswer{Result: jsontext.Value(`"again"`)}); err != nil {
			b.T.Errorf("a second answer: %v", err)
		}
		want := `d:before | m:before | tool:` + name + ` | d:true {"sum":8} | m:true {"sum":8} | d:after | m:after | ok`
		if got := Told(sink.Finished(turn)); got != want {
			b.T.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

func toolTimeout(b *bench) {
	b.native()
	r := b.start(Knobs{})
	a, sink := r.Open(tools(r.Spec("t1")))
	r.Start(a, 1, b.text(`tool add {"a":7}`))
	late := fault.New(fault.ToolTimeout, "The page did not answer in time.")
	if err := a.Conversation.AnswerTool(r.Ctx, sink.Called(0).CallID, thread.ToolAnswer{Error: late}); err != nil {
		b.T.Fatal(err)
	}
	got := Told(sink.Finished(1))
	if !strings.Contains(got, `d:false {"error":{"code":"TOOL_TIMEOUT"`) || !strings.HasSuffix(got, "| ok") {
		b.T.Error(got)
	}
}

func unknownTool(b *bench) {
	b.native()
	r := b.start(Knobs{})
	a, sink := r.Open(tools(r.Spec("t1")))
	got := Told(r.Turn(a, sink, 1, b.text(`tool subtract {"a":7}`)))
	if !strings.Contains(got, "d:false ") || !strings.HasSuffix(got, "| ok") || strings.Contains(got, "tool:") {
		b.T.Error(got)
	}
}

func cancelInText(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	r.Start(a, 1, b.text("say m x", "wait"))
	sink.Saw("x")
	r.Cancel(a, 1)
	r.Cancel(a, 1)
	if got := Told(sink.Finished(1)); got != "d:x | cancelled" {
		b.T.Error(got)
	}
	b.expect(a, sink, 2, "d:on | m:on | ok", "say m on")
	r.Start(a, 3, b.text("wait"))
	r.Cancel(a, 3) // perhaps before the agent has said anything at all
	if got := Told(sink.Finished(3)); got != "cancelled" {
		b.T.Error(got)
	}
}

func cancelInTool(b *bench) {
	b.native()
	r := b.start(Knobs{})
	a, sink := r.Open(tools(r.Spec("t1")))
	r.Start(a, 1, b.text(`tool add {"a":1}`, "wait"))
	call := sink.Called(0)
	r.Cancel(a, 1)
	if got := Told(sink.Finished(1)); !strings.HasSuffix(got, "| cancelled") {
		b.T.Error(got)
	}
	if err := a.Conversation.AnswerTool(r.Ctx, call.CallID, thread.ToolAnswer{Result: jsontext.Value(`1`)}); err != nil {
		b.T.Errorf("a late answer: %v", err)
	}
	b.expect(a, sink, 2, "d:on | m:on | ok", "say m on")
}

func cancelOfAnother(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	r.Cancel(a, 1)
	r.Start(a, 2, b.text("say m x", "gate"))
	sink.Saw("x")
	r.Cancel(a, 1)
	r.OpenGates(r.PIDs()...)
	if got := Told(sink.Finished(2)); got != "d:x | m:x | ok" {
		b.T.Error(got)
	}
}

func providerErrors(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	for i, status := range []string{"400", "401", "429", "500"} {
		code := fault.ProviderRequestFailed
		if status == "401" {
			code = b.p.Unauthorized
		}
		id := uint64(2*i + 1)
		frames := b.expect(a, sink, id, "d:half | failed "+string(code), "say m half", "fail "+status)
		e := frames[len(frames)-1].Err
		if message, _ := e.Details["message"].(string); message == "" || e.Details["provider"] != r.Driver.Provider.String() {
			b.T.Errorf("status %s: details %v", status, e.Details)
		}
		if code == fault.ProviderAuthRequired && e.Details["loginCommand"] == nil {
			b.T.Errorf("status %s: no login command in %v", status, e.Details)
		}
		b.expect(a, sink, id+1, "d:on | m:on | ok", "say m on")
	}
}

func streamCut(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:half | failed PROVIDER_REQUEST_FAILED", "say m half", "cut")
	b.expect(a, sink, 2, "d:on | m:on | ok", "say m on")
}

func resumeInNewProcess(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:one | m:one | ok", "say m one")
	first := r.PIDs()[0]
	r.Kill(first)
	again, sink := r.Resume(r.Spec("t1"), a)
	if again.Fresh || again.SessionID != a.SessionID || again.Lost != nil || slices.Contains(r.PIDs(), first) {
		b.T.Errorf("attached %+v", again)
	}
	b.expect(again, sink, 2, "d:two | m:two | ok", "say m two")
}

func resumeUnknown(b *bench) {
	r := b.start(Knobs{})
	spec := r.Spec("t1")
	spec.SessionID, spec.Instructed = b.p.UnknownID, true
	a, sink := r.Open(spec)
	if !a.Fresh || a.SessionID == spec.SessionID || a.SessionID == "" || a.Lost == nil || a.Lost.Code != fault.ProviderSessionLost {
		b.T.Errorf("attached %+v", a)
	}
	b.expect(a, sink, 1, "d:x | m:x | ok", "say m x")
	r.Open(r.Spec("t2")) // losing a conversation is no failure of the program
}

func killedBetween(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:one | m:one | ok", "say m one")
	r.Kill(r.PIDs()[0])
	if a.Conversation.Alive() {
		b.T.Error("the conversation outlived its process")
	}
	sink.Wait("the loss", func(fs []thread.Frame) bool { return strings.Contains(Words(fs), "gone PROVIDER_RUNTIME_DISCONNECTED") })
	again, sink := r.Resume(r.Spec("t1"), a)
	b.expect(again, sink, 2, "d:two | m:two | ok", "say m two")
}

func killedWithin(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:one | m:one | ok", "say m one")
	r.Start(a, 2, b.text("say m half", "die"))
	frames := sink.Finished(2)
	if got := Told(frames); got != "d:half | failed PROVIDER_RUNTIME_DISCONNECTED" {
		b.T.Error(got)
	}
	e := frames[len(frames)-1].Err
	if tail, _ := e.Details["stderr"].(string); e.Details["exitStatus"] != "exit status 7" || !strings.Contains(tail, "[redacted]") {
		b.T.Errorf("details %v", e.Details)
	}
	again, sink := r.Resume(r.Spec("t1"), a)
	if again.Fresh {
		b.T.Errorf("attached %+v", again)
	}
	b.expect(again, sink, 3, "d:two | m:two | ok", "say m two")
}

func secondThread(b *bench) {
	r := b.start(Knobs{})
	one, first := r.Open(r.Spec("t1"))
	two, second := r.Open(r.Spec("t2"))
	if one.SessionID == two.SessionID {
		b.T.Errorf("both have session %s", one.SessionID)
	}
	r.Start(one, 1, b.text("say m one", "wait"))
	first.Saw("one")
	b.expect(two, second, 1, "d:two | m:two | ok", "say m two")
	b.expect(two, second, 2, "d:half | failed PROVIDER_REQUEST_FAILED", "say m half", "fail 400")
	r.Cancel(one, 1)
	if got := Told(first.Finished(1)); got != "d:one | cancelled" {
		b.T.Error(got)
	}
}

func prepare(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	for id, reply := range []string{thread.PrepareAck, "Sure! " + thread.PrepareAck} {
		turn := thread.Turn{ID: uint64(id + 1), Kind: thread.Prepare, Text: b.text("say m " + reply)}
		if err := a.Conversation.StartTurn(r.Ctx, turn); err != nil {
			b.T.Fatal(err)
		}
		if got, want := Told(sink.Finished(turn.ID)), "d:"+reply+" | m:"+reply+" | ok"; got != want {
			b.T.Errorf("got %s, want %s", got, want)
		}
	}
}

func usage(b *bench) {
	if b.p.Tokens == 0 {
		b.T.Skip("this program tells no usage")
	}
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	for id := range uint64(2) {
		r.Turn(a, sink, id+1, b.text("say m x"))
	}
	r.Turn(a, sink, 3, b.text("fail 400"))
	if got := Total(sink.All()); got != 2*b.p.Tokens {
		b.T.Errorf("%d tokens after two turns and a failure, want %d", got, 2*b.p.Tokens)
	}
	r.Kill(r.PIDs()[0])
	before := sink.All()
	again, sink := r.Resume(r.Spec("t1"), a)
	r.Turn(again, sink, 4, b.text("say m x"))
	if got := Total(append(before, sink.All()...)); got != 3*b.p.Tokens {
		b.T.Errorf("%d tokens after three turns and a restart, want %d", got, 3*b.p.Tokens)
	}
}

func slowCancel(b *bench) {
	r := b.start(Knobs{})
	stuck, stuckSink := r.Open(r.Spec("stuck"))
	b.expect(stuck, stuckSink, 1, "d:x | m:x | ok", "say m x")
	idle, idleSink := r.Open(r.Spec("idle"))
	b.expect(idle, idleSink, 1, "d:x | m:x | ok", "say m x")
	busy, busySink := r.Open(r.Spec("busy"))
	r.Start(busy, 1, b.text("say m begun", "gate", "say m , done"))
	busySink.Saw("begun")
	r.Start(stuck, 2, b.text("say m stuck", "late"))
	stuckSink.Saw("stuck")
	first := r.PIDs()
	r.Cancel(stuck, 2)
	stuck.Conversation.Abandon(2)
	if stuck.Conversation.Alive() || !busy.Conversation.Alive() {
		b.T.Error("only the busy conversation shall live on")
	}
	// Threads that only share the program go on, new ones and old ones.
	fresh, freshSink := r.Open(r.Spec("fresh"))
	b.expect(fresh, freshSink, 1, "d:x | m:x | ok", "say m x")
	if !idle.Conversation.Alive() {
		idle, idleSink = r.Resume(r.Spec("idle"), idle)
	}
	if idle.Fresh && idle.Lost != nil {
		b.T.Errorf("the idle thread lost its conversation: %v", idle.Lost)
	}
	b.expect(idle, idleSink, 2, "d:y | m:y | ok", "say m y")
	// Its own thread gets its conversation back once the old turn is over.
	back := make(chan thread.Attachment, 1)
	sink := NewCollector(b.T)
	spec := r.Spec("stuck")
	spec.SessionID, spec.Instructed = stuck.SessionID, true
	go func() {
		a, err := r.Manager.Attach(r.Ctx, spec, sink)
		if err != nil {
			b.T.Error(err)
		}
		back <- a
	}()
	r.OpenGates(first...)
	if got := Told(busySink.Finished(1)); got != "d:begun | d:, done | m:begun, done | ok" {
		b.T.Error(got)
	}
	a := <-back
	if a.Conversation == nil || a.Fresh || a.SessionID != stuck.SessionID {
		b.T.Fatalf("attached %+v", a)
	}
	b.expect(a, sink, 3, "d:again | m:again | ok", "say m again")
	for _, f := range stuckSink.All() {
		if f.Text == "too late" || f.Kind == thread.FrameFinished && f.Turn == 2 {
			b.T.Errorf("the fenced turn still spoke: %+v", f)
		}
	}
}

func hungResume(b *bench) {
	r := b.start(Knobs{HangResume: true})
	busy, sink := r.Open(r.Spec("busy"))
	r.Start(busy, 1, b.text("say m begun", "gate", "say m , done"))
	sink.Saw("begun")
	spec := r.Spec("hung")
	spec.SessionID, spec.Instructed = b.p.UnknownID, true
	r.Refuse(spec, fault.ProviderTimeout, fault.ProviderRuntimeStartFailed)
	r.OpenGates(r.PIDs()...)
	if got := Told(sink.Finished(1)); got != "d:begun | d:, done | m:begun, done | ok" {
		b.T.Error(got)
	}
	r.Open(r.Spec("other"))
}

func closing(b *bench) {
	r := b.start(Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	b.expect(a, sink, 1, "d:x | m:x | ok", "say m x")
	r.Start(a, 2, b.text("say m y", "wait"))
	sink.Saw("y")
	ctx, cancel := context.WithTimeout(r.Ctx, 5*time.Second)
	defer cancel()
	if err := a.Conversation.Close(ctx); err != nil {
		b.T.Fatal(err)
	}
	n := len(sink.All())
	if a.Conversation.Alive() {
		b.T.Error("a closed conversation is alive")
	}
	if err := a.Conversation.StartTurn(r.Ctx, thread.Turn{ID: 3, Text: "x"}); err == nil {
		b.T.Error("a closed conversation took a turn")
	}
	r.Until("the session's end", func() bool {
		infos := r.Manager.Runtimes()
		return len(infos) == 0 || infos[0].Sessions == 0
	})
	if got := sink.All()[n:]; len(got) > 0 {
		b.T.Errorf("after the close came %s", Words(got))
	}
	again, sink := r.Resume(r.Spec("t1"), a)
	if again.Fresh {
		b.T.Errorf("attached %+v", again)
	}
	b.expect(again, sink, 4, "d:on | m:on | ok", "say m on")
}

func failingStart(b *bench) {
	r := b.start(Knobs{ExitStatus: 3})
	for range 2 { // the second try comes without a wait
		e := r.Refuse(r.Spec("t1"), fault.ProviderRuntimeStartFailed)
		tail, _ := e.Details["stderr"].(string)
		if e.Details["exitStatus"] != "exit status 3" || !strings.Contains(tail, "[redacted]") {
			b.T.Errorf("details %v", e.Details)
		}
	}
	e := r.Refuse(r.Spec("t1"), fault.ProviderRuntimeStartFailed)
	if e.Details["retryAfterMs"] == nil {
		b.T.Errorf("details %v", e.Details)
	}
	if pids := r.PIDs(); len(pids) != 0 {
		b.T.Errorf("processes %v are left", pids)
	}
}
