package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/e2e/modelserver"
)

// realPatience is how long a step with a real agent may take: it needs seconds to
// start, and more on a busy machine.
const realPatience = 90 * time.Second

// realStage is a daemon whose opencode is the real one, and the model behind it.
type realStage struct {
	*testing.T
	home, work string
	program    string
	env        []string
	model      *modelserver.Server
	d          *daemon
}

// startModel starts the model server for the agent of a test, and says what network
// that agent has.
func startModel(t *testing.T) *modelserver.Server {
	t.Helper()
	if offline() {
		t.Log("the agent runs without any network but loopback")
	} else {
		t.Log("the agent runs with the machine's network: no namespace could be made")
	}
	model, err := modelserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Errorf("model server: %v", err)
		}
	})
	return model
}

func newRealStage(t *testing.T) *realStage {
	if !*realAgents {
		t.Skip("real agents are driven only with -real (make e2e-real)")
	}
	program, err := installOpenCode()
	if err != nil {
		t.Skipf("no real agent: %v", err)
	}
	model := startModel(t)
	s := &realStage{T: t, home: newHome(t), program: program, model: model}
	dir := filepath.Dir(s.home)
	s.work = filepath.Join(dir, "work")
	userHome := filepath.Join(dir, "user")
	bin := filepath.Join(dir, "bin")
	s.mkdir(s.work, filepath.Join(userHome, ".config", "opencode"), bin)
	// On PATH, so that the daemon finds it as it finds a user's.
	if err := os.Symlink(program, filepath.Join(bin, "opencode")); err != nil {
		t.Fatal(err)
	}
	s.write(filepath.Join(userHome, ".config", "opencode", "opencode.json"), object{
		"model": "test/test-model",
		"provider": object{"test": object{
			"npm": "@ai-sdk/openai-compatible", "name": "Test",
			"options": object{"baseURL": model.URL + "/v1", "apiKey": "none"},
			"models":  object{"test-model": object{"name": "Test Model"}},
		}},
	})
	s.write(filepath.Join(s.home, "settings.json"), object{
		"providerSettings": object{"opencode": object{"env": object{
			"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
		}}},
	})
	s.env = []string{
		"HOME=" + userHome, "USERPROFILE=" + userHome, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "XDG_CACHE_HOME=", "XDG_STATE_HOME=",
		// The program is large, and the machine may be busy.
		"PEDELEC_DURATIONS=probe=60s;start=120s",
	}
	s.d = start(t, s.home, s.env...)
	return s
}

func (s *realStage) mkdir(dirs ...string) {
	s.Helper()
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *realStage) write(path string, v any) {
	s.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		s.Fatal(err)
	}
}

// thread is a thread and the connection that is subscribed to it.
type realThread struct {
	s  *realStage
	c  *conn
	id string
	ws string
}

// thread makes a thread with a workspace of its own.
func (s *realStage) thread(name string) *realThread {
	s.Helper()
	th := &realThread{s: s, c: s.d.dial(), ws: filepath.Join(s.work, name)}
	var created struct {
		ThreadID string `json:"threadId"`
	}
	s.must(th.c.call("create_thread", object{"provider": "opencode", "workspace": object{"path": th.ws}}, &created))
	th.id = created.ThreadID
	th.subscribe()
	return th
}

func (th *realThread) subscribe() snapshot {
	th.s.Helper()
	var r struct {
		Snapshot snapshot `json:"snapshot"`
	}
	th.s.must(th.c.call("subscribe_thread", object{"threadId": th.id}, &r))
	return r.Snapshot
}

func (s *realStage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// send begins a turn.
func (th *realThread) send(op, text string) {
	th.s.Helper()
	th.s.must(th.c.call("send_text", object{"threadId": th.id, "operationId": op, "message": text}, nil))
}

// finish takes the events up to the end of the operation.
func (th *realThread) finish(op string) []event {
	th.s.Helper()
	events, err := th.c.until(realPatience, func(e event) bool {
		return e.Type == "operation_completed" && e.OperationID == op
	})
	if err != nil {
		th.s.Fatalf("operation %s: %v; so far %s", op, err, kinds(events))
	}
	return events
}

// turn runs a whole turn and returns its text.
func (th *realThread) turn(op, text string) string {
	th.s.Helper()
	th.send(op, text)
	events := th.finish(op)
	last := events[len(events)-1]
	if !last.Success {
		th.s.Fatalf("operation %s failed: %v", op, last.Err)
	}
	var messages []string
	for _, e := range events {
		if e.Type == "assistant_message" {
			messages = append(messages, e.Text)
		}
	}
	return strings.Join(messages, "\n")
}

// await waits for an event of a type.
func (th *realThread) await(kind, status string) event {
	th.s.Helper()
	events, err := th.c.until(realPatience, func(e event) bool {
		return e.Type == kind && (status == "" || e.Status == status)
	})
	if err != nil {
		th.s.Fatalf("waiting for %s %s: %v; so far %s", kind, status, err, kinds(events))
	}
	return events[len(events)-1]
}

func kinds(events []event) string {
	var words []string
	for _, e := range events {
		if e.Type != "assistant_delta" {
			words = append(words, strings.TrimSpace(e.Type+" "+e.Status))
		}
	}
	return strings.Join(words, ", ")
}

// pids returns the agent's processes.
func (s *realStage) pids() []int {
	s.Helper()
	c := s.d.operator()
	defer c.Close()
	pids, err := runtimePIDs(c)
	s.must(err)
	return pids
}

// killAgent kills the one agent process.
func (s *realStage) killAgent() {
	s.Helper()
	pids := s.pids()
	if len(pids) != 1 {
		s.Fatalf("agent processes: %v, want one", pids)
	}
	s.must(killProcess(pids[0]))
	c := s.d.operator()
	defer c.Close()
	s.must(waitFor(realPatience, "the daemon to notice", func() (bool, error) {
		now, err := runtimePIDs(c)
		return !slices.Contains(now, pids[0]), err
	}))
}

// asked waits until the model was asked with this as the last user text, and
// returns that request.
func (s *realStage) asked(text string) modelserver.Request {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), realPatience)
	defer cancel()
	r, err := s.model.Await(ctx, func(r modelserver.Request) bool {
		return len(r.Tools) > 0 && strings.Contains(r.LastUserText(), text)
	})
	if err != nil {
		s.Fatalf("the model was never asked %q: %v", text, err)
	}
	return r
}

// remembers fails the test unless the request carries these earlier texts.
func (s *realStage) remembers(r modelserver.Request, texts ...string) {
	s.Helper()
	for _, text := range texts {
		if !slices.ContainsFunc(r.Messages, func(m modelserver.Message) bool { return strings.Contains(m.Text, text) }) {
			s.Errorf("the request %q does not carry the earlier %q", r.LastUserText(), text)
		}
	}
}

func TestRealOpenCode(t *testing.T) {
	s := newRealStage(t)
	a := s.thread("a")

	t.Log("nothing is launched before the first operation")
	if pids := s.pids(); len(pids) != 0 {
		t.Errorf("agent processes after create: %v", pids)
	}

	t.Log("prepare")
	s.must(a.c.call("prepare_thread", object{"threadId": a.id, "operationId": "prepare"}, nil))
	events := a.finish("prepare")
	if last := events[len(events)-1]; !last.Success {
		t.Fatalf("prepare failed: %v", last.Err)
	}
	for _, e := range events {
		if strings.HasPrefix(e.Type, "assistant_") {
			t.Errorf("text of a prepare became an event: %s", e.raw)
		}
	}

	t.Log("a streamed turn")
	a.send("stream", "tell me about bicycles")
	deltas := 0
	var message string
	for _, e := range a.finish("stream") {
		switch e.Type {
		case "assistant_delta":
			deltas++
		case "assistant_message":
			message = e.Text
		}
	}
	if want := "You said: tell me about bicycles"; message != want || deltas == 0 {
		t.Errorf("message %q after %d deltas, want %q", message, deltas, want)
	}
	if got, want := a.turn("unicode", "[[unicode]]"), "καλημέρα 🚲🚲 größer"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if got := a.turn("tool", `[[tool bash {"command":"echo made > made.txt","description":"make a file"}]]`); got != "the tool is done" {
		t.Errorf("message %q after a tool", got)
	}
	if _, err := os.Stat(filepath.Join(a.ws, "made.txt")); err != nil {
		t.Errorf("the agent's tool did not run in the workspace: %v", err)
	}
	if got := a.turn("slash", "/init"); !strings.HasSuffix(got, "/init") {
		t.Errorf("a text that looks like a command gave %q; it must reach the model as text", got)
	}

	t.Log("cancel in a turn")
	a.send("slow", "[[slow]]")
	a.await("assistant_delta", "")
	b := s.d.dial()
	var cancelled struct {
		Cancelled bool `json:"cancelled"`
	}
	s.must(b.call("cancel_operation", object{"threadId": a.id, "operationId": "slow"}, &cancelled))
	if !cancelled.Cancelled {
		t.Error("cancel says that it did not cancel")
	}
	if e := a.finish("slow"); codeOf(asError(e[len(e)-1].Err)) != "OPERATION_CANCELLED" {
		t.Errorf("the cancelled turn ended with %s", e[len(e)-1].raw)
	}
	a.await("status_changed", "idle")

	t.Log("two threads on one process")
	other := s.thread("b")
	if got := other.turn("one", "from the other"); got != "You said: from the other" {
		t.Errorf("the other thread says %q", got)
	}
	if pids := s.pids(); len(pids) != 1 {
		t.Errorf("agent processes: %v, want one for both threads", pids)
	}

	t.Log("the program killed between turns")
	s.killAgent()
	if got := a.turn("after-kill", "still there?"); got != "You said: still there?" {
		t.Errorf("after the kill: %q", got)
	}
	s.remembers(s.asked("still there?"), "tell me about bicycles")

	t.Log("the daemon killed in a turn, the conversation continued")
	a.send("interrupted", "[[slow]] once more")
	a.await("assistant_delta", "")
	s.d.kill()
	s.d = start(t, s.home, s.env...)
	a.c, other.c = s.d.dial(), s.d.dial()
	if snap := a.subscribe(); snap.Status != "running" {
		t.Errorf("the crash's snapshot says %q", snap.Status)
	}
	if e := a.finish("interrupted"); codeOf(asError(e[len(e)-1].Err)) != "OPERATION_INTERRUPTED" {
		t.Errorf("the turn ended with %s", e[len(e)-1].raw)
	}
	if got := a.turn("continued", "what did I ask first?"); got != "You said: what did I ask first?" {
		t.Errorf("after the restart: %q", got)
	}
	s.remembers(s.asked("what did I ask first?"), "tell me about bicycles", "still there?")
	other.subscribe()

	// After the restart, since the daemon waits a little before it starts a program
	// that died young twice.
	t.Log("the program killed within a turn")
	a.send("killed", "[[slow]] again")
	a.await("assistant_delta", "")
	s.killAgent()
	if e := a.finish("killed"); codeOf(asError(e[len(e)-1].Err)) != "PROVIDER_RUNTIME_DISCONNECTED" {
		t.Errorf("the turn ended with %s", e[len(e)-1].raw)
	}
	if got := other.turn("two", "unhurt?"); got != "You said: unhurt?" {
		t.Errorf("the other thread says %q", got)
	}
	s.must(a.c.call("prepare_thread", object{"threadId": a.id, "operationId": "heal"}, nil))
	a.finish("heal")
	if got := a.turn("healed", "and now?"); got != "You said: and now?" {
		t.Errorf("after healing: %q", got)
	}
	s.remembers(s.asked("and now?"), "tell me about bicycles", "what did I ask first?")

	t.Log("the end")
	s.must(a.c.call("end_thread", object{"threadId": a.id}, nil))
	code, err := s.d.stop()
	if err != nil || code != 0 {
		t.Errorf("the daemon left with %d: %v", code, err)
	}
	if err := waitFor(realPatience, "the agent to be gone", func() (bool, error) { return len(agents(s.home)) == 0, nil }); err != nil {
		t.Errorf("%v: %v live", err, agents(s.home))
	}
}

// TestRealOpenCodeErrors shows what a model that refuses makes of a turn.
func TestRealOpenCodeErrors(t *testing.T) {
	s := newRealStage(t)
	a := s.thread("a")
	for name, text := range map[string]string{"bad": "[[error 400]]", "login": "[[error 401]]"} {
		a.send(name, text)
		events := a.finish(name)
		if last := events[len(events)-1]; last.Success || last.Err == nil {
			t.Errorf("%s: the turn ended with %s", name, last.raw)
		}
		s.must(a.c.call("end_thread", object{"threadId": a.id}, nil))
		s.must(a.c.call("resume_thread", object{"threadId": a.id}, nil))
		a.await("status_changed", "idle")
	}
	// Overload is retried by the agent without a word; the turn can be cancelled.
	a.send("busy", "[[error 429]]")
	s.asked("[[error 429]]")
	s.must(a.c.call("cancel_operation", object{"threadId": a.id}, nil))
	if e := a.finish("busy"); codeOf(asError(e[len(e)-1].Err)) != "OPERATION_CANCELLED" {
		t.Errorf("the turn ended with %s", e[len(e)-1].raw)
	}
}

// asError returns e as an error that is nil when e is.
func asError(e *wireError) error {
	if e == nil {
		return nil
	}
	return e
}
