package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/e2e/modelserver"
)

// realAgent is an agent program from the npm registry.
type realAgent struct {
	provider string
	pkg      string // npm package and version
	launcher string // what npm puts on PATH, in node_modules
	program  string // what must be there besides
	shared   bool   // one process serves all threads
	toolName func(tool string) string
	shell    func(command string) string // the marker that makes the model run it
	permit   string                      // what the settings let it do; "" = the default
	codes    map[string]string           // of turns in which the model server refuses
	// configure writes the user's files and returns the environment that makes the
	// agent use the model server.
	configure func(s *realStage, userHome string) (env object)

	install func() (string, error)
}

// npm returns the agent with its install, which happens once. No install script
// runs.
func (a realAgent) npm() *realAgent {
	a.install = sync.OnceValues(func() (string, error) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir := filepath.Join(cache, "pedelec-core-e2e", strings.NewReplacer("@", "-", "/", "-").Replace(strings.TrimPrefix(a.pkg, "@")))
		modules := filepath.Join(dir, "node_modules")
		launcher, program := filepath.Join(modules, filepath.FromSlash(a.launcher)), filepath.Join(modules, filepath.FromSlash(a.program))
		if found, _ := filepath.Glob(program); len(found) == 1 {
			return launcher, nil
		}
		npm, err := exec.LookPath("npm")
		if err != nil {
			return "", errors.New("npm is not on PATH; install Node.js to test with real agents")
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		cmd := exec.Command(npm, "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", a.pkg)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("npm install %s: %w\n%s", a.pkg, err, text)
		}
		if found, _ := filepath.Glob(program); len(found) != 1 {
			return "", fmt.Errorf("%s has no program for %s", a.pkg, npmPlatform())
		}
		return launcher, nil
	})
	return &a
}

// agentStage is a daemon for one real agent, and the model behind it.
type agentStage struct {
	*realStage
	agent *realAgent
}

func newAgentStage(t *testing.T, a *realAgent) *agentStage {
	if !*realAgents {
		t.Skip("real agents are driven only with -real (make e2e-real)")
	}
	launcher, err := a.install()
	if err != nil {
		t.Skipf("no real agent: %v", err)
	}
	model := startModel(t)
	s := &agentStage{&realStage{T: t, home: newHome(t), program: launcher, model: model}, a}
	dir := filepath.Dir(s.home)
	s.work = filepath.Join(dir, "work")
	userHome, bin := filepath.Join(dir, "user"), filepath.Join(dir, "bin")
	s.mkdir(s.work, userHome, bin)
	// The launcher is on PATH, as npm puts it there; the daemon finds what it launches.
	if err := os.Symlink(launcher, filepath.Join(bin, a.provider)); err != nil {
		t.Fatal(err)
	}
	settings := object{"env": a.configure(s.realStage, userHome)}
	if a.permit != "" {
		settings["permission"] = a.permit
	}
	s.write(filepath.Join(s.home, "settings.json"), object{"providerSettings": object{a.provider: settings}})
	s.env = []string{
		"HOME=" + userHome, "USERPROFILE=" + userHome, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "XDG_CACHE_HOME=", "XDG_STATE_HOME=",
		"PEDELEC_DURATIONS=probe=60s;start=120s", // the program is large, and the machine may be busy
		"PEDELEC_TOKEN=secret-of-the-daemon", "UNRELATED_API_KEY=secret-of-another",
	}
	s.d = start(t, s.home, s.env...)
	return s
}

// thread makes a thread with a workspace and tools of its own.
func (s *agentStage) thread(name, guidance string) *realThread {
	s.Helper()
	th := &realThread{s: s.realStage, c: s.d.dial(), ws: filepath.Join(s.work, name)}
	schema := jsontext.Value(`{"type":"object","properties":{"a":{"type":"number"}}}`)
	var created struct {
		ThreadID string `json:"threadId"`
	}
	s.must(th.c.call("create_thread", object{
		"provider": s.agent.provider, "workspace": object{"path": th.ws},
		"skills": object{"guidance": guidance, "tools": []object{
			{"name": "page.add", "description": "adds", "argsSchema": schema},
			{"name": "hurry", "description": "has little time", "argsSchema": schema, "timeoutMs": 500},
		}},
	}, &created))
	th.id = created.ThreadID
	th.subscribe()
	return th
}

// answer waits for a tool call and answers it as a page does.
func (th *realThread) answer(tool, args, result string) {
	th.s.Helper()
	var call struct {
		RequestID string         `json:"requestId"`
		Tool      string         `json:"toolName"`
		Args      jsontext.Value `json:"args"`
	}
	if err := json.Unmarshal(th.await("tool_call", "").raw, &call); err != nil {
		th.s.Fatal(err)
	}
	if call.Tool != tool || string(call.Args) != args {
		th.s.Errorf("the page was asked for %s %s, want %s %s", call.Tool, call.Args, tool, args)
	}
	if result != "" {
		th.s.must(th.c.call("submit_tool_result", object{"threadId": th.id, "requestId": call.RequestID, "result": jsontext.Value(result)}, nil))
	}
}

// cancel cancels the operation and checks that it ends so.
func (th *realThread) cancel(op string) {
	th.s.Helper()
	b := th.s.d.dial()
	defer b.Close()
	b.token = th.c.token
	var answer struct {
		Cancelled bool `json:"cancelled"`
	}
	th.s.must(b.call("cancel_operation", object{"threadId": th.id, "operationId": op}, &answer))
	if !answer.Cancelled {
		th.s.Errorf("%s: cancel says that it did not cancel", op)
	}
	events := th.finish(op)
	if last := events[len(events)-1]; codeOf(asError(last.Err)) != "OPERATION_CANCELLED" {
		th.s.Errorf("the cancelled turn ended with %s", last.raw)
	}
	for _, e := range events {
		if e.Type == "assistant_message" {
			th.s.Errorf("a cancelled turn told a message: %s", e.raw)
		}
	}
	th.await("status_changed", "idle")
}

// heal brings a thread back from an error.
func (th *realThread) heal() {
	th.s.Helper()
	th.s.must(th.c.call("end_thread", object{"threadId": th.id}, nil))
	th.await("ended", "")
	th.s.must(th.c.call("resume_thread", object{"threadId": th.id}, nil))
	th.await("status_changed", "idle")
}

// afterDeaths runs a turn although the program has just died twice: the daemon may
// say that it waits a little before it starts it again.
func (th *realThread) afterDeaths(op, text string) string {
	th.s.Helper()
	for try := 1; ; try++ {
		th.send(fmt.Sprint(op, try), text)
		events := th.finish(fmt.Sprint(op, try))
		last := events[len(events)-1]
		if last.Success || codeOf(asError(last.Err)) != "PROVIDER_RUNTIME_START_FAILED" || try > 3 {
			for _, e := range events {
				if e.Type == "assistant_message" {
					return e.Text
				}
			}
			th.s.Fatalf("the turn ended with %s", last.raw)
		}
		var told struct {
			Error struct {
				Details struct {
					RetryAfterMs int `json:"retryAfterMs"`
				} `json:"details"`
			} `json:"error"`
		}
		th.s.must(json.Unmarshal(last.raw, &told))
		wait := time.NewTimer(time.Duration(told.Error.Details.RetryAfterMs) * time.Millisecond)
		<-wait.C
		th.heal()
	}
}

// usage returns the thread's total of tokens.
func (th *realThread) usage() uint64 {
	th.s.Helper()
	var now struct {
		Usage struct {
			TotalTokens uint64 `json:"totalTokens"`
		} `json:"usage"`
	}
	th.s.must(th.c.call("thread_snapshot", object{"threadId": th.id}, &now))
	return now.Usage.TotalTokens
}

// carries fails the test unless the model was sent a text, with whatever role.
func (s *agentStage) carries(text string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), realPatience)
	defer cancel()
	if _, err := s.model.Await(ctx, func(r modelserver.Request) bool { return strings.Contains(string(r.Body), text) }); err != nil {
		s.Errorf("the model was never sent %q: %v", text, err)
	}
}

// processes checks how many there are.
func (s *agentStage) processes(threads int) {
	s.Helper()
	want := threads
	if s.agent.shared && threads > 0 {
		want = 1
	}
	if pids := s.pids(); len(pids) != want {
		s.Errorf("agent processes %v for %d threads, want %d", pids, threads, want)
	}
}

// weigh logs what the processes need.
func (s *agentStage) weigh() {
	s.Helper()
	var list struct {
		Runtimes []struct {
			PID      int   `json:"pid"`
			RSSBytes int64 `json:"rssBytes"`
		} `json:"runtimes"`
	}
	c := s.d.operator()
	defer c.Close()
	s.must(c.call("list_runtimes", nil, &list))
	for _, r := range list.Runtimes {
		s.Logf("process %d has %d MB", r.PID, r.RSSBytes>>20)
	}
}

// secrets checks the arguments and the environment of the agents' processes.
func (s *agentStage) secrets(others ...string) {
	s.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	for _, pid := range s.pids() {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		s.must(err)
		for arg := range strings.SplitSeq(string(args), "\x00") {
			if len(arg) > 4<<10 {
				s.Errorf("an argument has %d bytes", len(arg))
			}
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		s.must(err)
		for _, secret := range append(others, "secret-of-the-daemon", "secret-of-another", s.d.info.Token) {
			if secret != "" && (strings.Contains(string(environ), secret) || strings.Contains(string(args), secret)) {
				s.Errorf("the process shows %q", secret)
			}
		}
	}
}

// drive takes an agent through its whole life.
func (a *realAgent) drive(t *testing.T) {
	s := newAgentStage(t, a)
	th := s.thread("a", "Be kind to visitors.")
	s.processes(0)

	t.Log("prepare")
	begun := time.Now()
	s.must(th.c.call("prepare_thread", object{"threadId": th.id, "operationId": "prepare"}, nil))
	events := th.finish("prepare")
	if last := events[len(events)-1]; !last.Success {
		t.Fatalf("prepare failed: %v", last.Err)
	}
	t.Logf("from nothing to the end of the first turn: %s", time.Since(begun).Round(time.Millisecond))
	for _, e := range events {
		if strings.HasPrefix(e.Type, "assistant_") {
			t.Errorf("text of a prepare became an event: %s", e.raw)
		}
	}
	s.processes(1)
	s.carries("Be kind to visitors.")

	t.Log("streamed turns")
	th.send("stream", "tell me about bicycles")
	deltas, message := 0, ""
	for _, e := range th.finish("stream") {
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
	if got, want := th.turn("unicode", "[[unicode]]"), "καλημέρα 🚲🚲 größer"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if got := th.turn("big", "[[big]]"); len(got) != 50*4096 {
		t.Errorf("a message of %d bytes", len(got))
	}
	if got := th.turn("slash", "/compact"); !strings.HasSuffix(got, "/compact") {
		t.Errorf("a text that looks like a command gave %q; it must reach the model as text", got)
	}
	before := th.usage()
	th.turn("counted", "count this")
	if cost := th.usage() - before; cost < modelserver.PromptTokens+modelserver.CompletionTokens || cost > 3*(modelserver.PromptTokens+modelserver.CompletionTokens) {
		t.Errorf("a turn cost %d tokens", cost)
	}

	t.Log("a frontend tool, answered by the page, in time and not")
	th.send("tool", fmt.Sprintf(`[[tool %s {"a":7}]]`, a.toolName("page.add")))
	th.answer("page.add", `{"a":7}`, `{"sum":"eight-from-the-page"}`)
	if e := th.finish("tool"); !e[len(e)-1].Success {
		t.Errorf("the turn with a tool ended with %s", e[len(e)-1].raw)
	}
	s.carries("eight-from-the-page")
	th.send("late", fmt.Sprintf(`[[tool %s {"a":1}]]`, a.toolName("hurry")))
	th.answer("hurry", `{"a":1}`, "")
	if e := th.finish("late"); !e[len(e)-1].Success {
		t.Errorf("the turn with a late tool ended with %s", e[len(e)-1].raw)
	}
	s.carries("TOOL_TIMEOUT")

	t.Log("cancel in text, before any text, in a frontend tool")
	th.send("slow", "[[slow]]")
	th.await("assistant_delta", "")
	th.cancel("slow")
	th.send("hang", "[[hang]]")
	th.cancel("hang")
	th.send("cancelled-tool", fmt.Sprintf(`[[tool %s {"a":2}]]`, a.toolName("page.add")))
	th.answer("page.add", `{"a":2}`, "")
	th.cancel("cancelled-tool")
	if got := th.turn("after-cancel", "still with me?"); got != "You said: still with me?" {
		t.Errorf("after the cancels: %q", got)
	}

	t.Log("the model server refuses")
	for _, status := range []string{"400", "401", "429", "500"} {
		th.send("error-"+status, "[[error "+status+"]]")
		e := th.finish("error-" + status)
		if got := codeOf(asError(e[len(e)-1].Err)); got != a.codes[status] {
			t.Errorf("status %s ended the turn with %s", status, e[len(e)-1].raw)
		}
		th.heal()
	}
	th.send("cut", "[[cut]]")
	if e := th.finish("cut"); codeOf(asError(e[len(e)-1].Err)) != "PROVIDER_REQUEST_FAILED" {
		t.Errorf("the cut stream ended with %s", e[len(e)-1].raw)
	}
	th.heal()

	t.Log("two threads at once")
	other := s.thread("b", "Another page's words.")
	th.send("wait", "[[slow]] here")
	th.await("assistant_delta", "")
	if got := other.turn("one", "from the other"); got != "You said: from the other" {
		t.Errorf("the other thread says %q", got)
	}
	s.processes(2)
	s.secrets()
	s.weigh()
	th.cancel("wait")

	t.Log("200 KB of guidance")
	long := s.thread("long", strings.Repeat("much to say ", 200<<10/12)+"the-end-of-it")
	if got := long.turn("long", "and now?"); got != "You said: and now?" {
		t.Errorf("with long guidance: %q", got)
	}
	s.carries("the-end-of-it")
	s.secrets("much to say")
	s.must(long.c.call("end_thread", object{"threadId": long.id}, nil))

	t.Log("the program killed between turns and within one")
	s.killAll()
	if got := th.turn("after-kill", "still there?"); got != "You said: still there?" {
		t.Errorf("after the kill: %q", got)
	}
	s.remembers(s.asked("still there?"), "tell me about bicycles")
	th.send("killed", "[[slow]] again")
	th.await("assistant_delta", "")
	s.killAll()
	if e := th.finish("killed"); codeOf(asError(e[len(e)-1].Err)) != "PROVIDER_RUNTIME_DISCONNECTED" {
		t.Errorf("the turn ended with %s", e[len(e)-1].raw)
	}
	if got := other.afterDeaths("two", "unhurt?"); got != "You said: unhurt?" {
		t.Errorf("the other thread says %q", got)
	}
	th.heal()
	if got := th.afterDeaths("healed", "and now?"); got != "You said: and now?" {
		t.Errorf("after healing: %q", got)
	}

	t.Log("the daemon killed in a turn, the conversation continued")
	total := th.usage()
	th.send("interrupted", "[[slow]] once more")
	th.await("assistant_delta", "")
	s.d.kill()
	s.d = start(t, s.home, s.env...)
	th.c, other.c = s.d.dial(), s.d.dial()
	if snap := th.subscribe(); snap.Status != "running" {
		t.Errorf("the crash's snapshot says %q", snap.Status)
	}
	if e := th.finish("interrupted"); codeOf(asError(e[len(e)-1].Err)) != "OPERATION_INTERRUPTED" {
		t.Errorf("the turn ended with %s", e[len(e)-1].raw)
	}
	if got := th.turn("continued", "what did I ask first?"); got != "You said: what did I ask first?" {
		t.Errorf("after the restart: %q", got)
	}
	s.remembers(s.asked("what did I ask first?"), "tell me about bicycles", "and now?")
	if now := th.usage(); now <= total || now > total+10*(modelserver.PromptTokens+modelserver.CompletionTokens) {
		t.Errorf("%d tokens became %d over the restart", total, now)
	}

	t.Log("the end")
	s.must(th.c.call("end_thread", object{"threadId": th.id}, nil))
	code, err := s.d.stop()
	if err != nil || code != 0 {
		t.Errorf("the daemon left with %d: %v", code, err)
	}
	if err := waitFor(realPatience, "the agent to be gone", func() (bool, error) { return len(agents(s.home)) == 0, nil }); err != nil {
		t.Errorf("%v: %v live", err, agents(s.home))
	}
}

// leavesNoCommand shows that what an agent runs goes with its turn: when that is
// cancelled, and when the agent dies.
func (a realAgent) leavesNoCommand(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked for on Linux only")
	}
	a.permit = "full"
	s := newAgentStage(t, &a)
	th := s.thread("a", "")
	th.turn("first", "hello")
	for seconds, end := range map[string]func(op string){
		"4321": func(op string) { th.cancel(op) },
		"4322": func(op string) {
			s.killAll()
			if e := th.finish(op); codeOf(asError(e[len(e)-1].Err)) != "PROVIDER_RUNTIME_DISCONNECTED" {
				t.Errorf("the turn ended with %s", e[len(e)-1].raw)
			}
			th.heal()
		},
	} {
		op, words := "sleep-"+seconds, "sleep\x00"+seconds
		th.send(op, a.shell("sleep "+seconds))
		s.must(waitFor(realPatience, "the command", func() (bool, error) { return len(commands(words)) > 0, nil }))
		end(op)
		s.must(waitFor(realPatience, "the command's end", func() (bool, error) { return len(commands(words)) == 0, nil }))
	}
}

// killAll kills every agent process and waits until the daemon knows.
func (s *agentStage) killAll() {
	s.Helper()
	pids := s.pids()
	if len(pids) == 0 {
		s.Fatal("no agent process to kill")
	}
	for _, pid := range pids {
		s.must(killProcess(pid))
	}
	c := s.d.operator()
	defer c.Close()
	s.must(waitFor(realPatience, "the daemon to notice", func() (bool, error) {
		now, err := runtimePIDs(c)
		return !slices.ContainsFunc(pids, func(pid int) bool { return slices.Contains(now, pid) }), err
	}))
}

// commands returns the processes with such words in their command line.
func commands(words string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), words) {
			found = append(found, file)
		}
	}
	return found
}
