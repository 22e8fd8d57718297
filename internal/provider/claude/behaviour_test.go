package claude

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider/conformance"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func newRig(t *testing.T, a Agent, k conformance.Knobs) *conformance.Rig {
	k.Dir = t.TempDir()
	return conformance.NewRig(t, a.Driver(), fake(k), k.Dir)
}

// texts returns the user's texts that the fakes read, and fails the test if they
// read anything but JSON.
func texts(r *conformance.Rig) []string {
	r.Helper()
	var all []string
	for _, text := range r.Read() {
		var l struct {
			Type    string `json:"type"`
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			r.Errorf("the agent read %q: %v", text, err)
		}
		if l.Type == "user" {
			all = append(all, l.Message.Content)
		}
	}
	return all
}

// after returns the argument that follows a flag.
func after(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

func TestAProcessIsStartedWithWhatTheThreadBrings(t *testing.T) {
	t.Setenv("PEDELEC_TOKEN", "of-the-daemon")
	t.Setenv("UNRELATED_API_KEY", "of-another-program")
	t.Setenv("CLAUDECODE", "1")
	t.Setenv("ANTHROPIC_PROBE", "of-claude")
	r := newRig(t, quick(), conformance.Knobs{})
	spec := r.Spec("t1")
	guidance := strings.Repeat("guidance ", 200<<10/9)
	spec.Instructions = func(c thread.ToolChannel) string { return fmt.Sprint(c == thread.ToolsNative, guidance) }
	spec.EffortArgs = []string{"--model", "claude-x", "--effort", "low"}
	spec.Skills = &thread.Skills{Tools: []thread.Tool{{Name: "canvas.paint", Description: "paints", ArgsSchema: jsontext.Value(`{"properties":{}}`)}}}
	spec.Tools = thread.ToolAccess{MCPURL: "http://127.0.0.1:1/mcp/t1", MCPSecret: "secret-of-t1"}
	a, sink := r.Open(spec)
	if got := conformance.Told(r.Turn(a, sink, 1, "say m x")); got != "d:x | m:x | ok" {
		t.Error(got)
	}
	args := r.Args()[0]
	for _, arg := range args {
		if len(arg) > maxArgument {
			t.Errorf("an argument has %d bytes", len(arg))
		}
	}
	for flag, want := range map[string]string{
		"--session-id": a.SessionID, "--model": "claude-x", "--effort": "low", "--permission-prompt-tool": "stdio",
		"--permission-mode": "default", "--setting-sources": "user",
		"--mcp-config": `{"mcpServers":{"pedelec":{"type":"sdk","name":"pedelec"}}}`,
	} {
		if got := after(args, flag); got != want {
			t.Errorf("%s %q, want %q", flag, got, want)
		}
	}
	file := after(args, "--append-system-prompt-file")
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "true"+guidance {
		t.Errorf("instructions of %d bytes, %v", len(text), err)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("instructions: %v, %v", info, err)
	}
	var names []string
	for _, kv := range r.Environ() {
		for _, secret := range []string{"of-the-daemon", "of-another-program", "secret-of-t1", "guidance"} {
			if strings.Contains(kv, secret) {
				t.Errorf("the environment holds %.40s", kv)
			}
		}
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	if !slices.Contains(names, "ANTHROPIC_PROBE") || !slices.Contains(names, "DISABLE_AUTOUPDATER") || slices.Contains(names, "CLAUDECODE") {
		t.Errorf("environment %q", names)
	}
	offered, err := os.ReadFile(filepath.Join(r.Dir, "tools"))
	model := thread.ModelNames(spec.Skills.Tools).Model["canvas.paint"]
	if want := `{"description":"paints","inputSchema":{"properties":{},"type":"object"},"name":"` + model + `"}`; err != nil || !strings.Contains(canonical(t, offered), want) {
		t.Errorf("tools on offer: %s, %v", offered, err)
	}

	again, sink := r.Resume(spec, a)
	r.Turn(again, sink, 2, "say m y")
	if args := r.Args()[1]; after(args, "--resume") != a.SessionID || slices.Contains(args, "--session-id") || after(args, "--append-system-prompt-file") != file {
		t.Errorf("resumed with %q", args)
	}
	if pids := r.PIDs(); len(pids) != 1 {
		t.Errorf("processes %v after a second attach", pids)
	}
}

func canonical(t *testing.T, text []byte) string {
	t.Helper()
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func TestAnArgumentThatIsTooLongIsRefused(t *testing.T) {
	r := newRig(t, quick(), conformance.Knobs{})
	spec := r.Spec("t1")
	spec.EffortArgs = []string{"--model", strings.Repeat("m", maxArgument+1)}
	r.Refuse(spec, fault.ProviderUnsupported)
}

func TestALinkInPlaceOfTheInstructionsIsNotFollowed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	r := newRig(t, quick(), conformance.Knobs{})
	spec := r.Spec("t1")
	spec.Instructions = func(thread.ToolChannel) string { return "be kind" }
	dir, err := spec.PrivateDir()
	if err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, instructionsFile)); err != nil {
		t.Fatal(err)
	}
	r.Open(spec)
	if text, _ := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("the file behind the link holds %q", text)
	}
}

func TestTextThatLooksLikeACommandIsText(t *testing.T) {
	r := newRig(t, quick(), conformance.Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	for i, text := range []string{"/compact", " /cost", "!ls", "#note", "plain\n{\"type\":\"x\"}\u2028"} {
		r.Turn(a, sink, uint64(i+1), text)
	}
	if got := texts(r); !slices.Equal(got, []string{"\n/compact", " /cost", "!ls", "#note", "plain\n{\"type\":\"x\"}\u2028"}) {
		t.Errorf("the agent read %q", got)
	}
}

func TestTheRightTextBecomesAMessage(t *testing.T) {
	event := func(e string) string {
		return `line {"type":"stream_event","event":` + e + `,"parent_tool_use_id":null}`
	}
	start := func(id string) string { return event(`{"type":"message_start","message":{"id":"` + id + `"}}`) }
	delta := func(text string) string {
		return event(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"` + text + `"}}`)
	}
	whole := func(id, text string) string {
		return `line {"type":"assistant","message":{"id":"` + id + `","content":[{"type":"text","text":"` + text + `"}]},"parent_tool_use_id":null}`
	}
	stop := event(`{"type":"message_stop"}`)
	success := func(text string) string {
		return `line {"type":"result","subtype":"success","is_error":false,"result":"` + text + `"}`
	}
	tests := []struct {
		name, want string
		lines      []string
	}{
		{"a retry makes what came before void", "d:ha | d:half | d:again | m:again | ok", []string{
			start("a"), delta("ha"), start("b"), delta("half"), whole("b", "half"), start("c"), delta("again"), whole("c", "again"), stop, success("again")}},
		{"an answer that was not streamed counts at once", "d:ha | m:whole | ok", []string{start("a"), delta("ha"), whole("x", "whole"), success("whole")}},
		{"two blocks of one answer", "m:one | m:two | ok", []string{start("a"), whole("a", "one"), whole("a", "two"), stop, success("two")}},
		{"only the result tells the text", "m:told | ok", []string{success("told")}},
		{"the result's text is not told twice", "m:x | ok", []string{start("a"), whole("a", "x"), stop, success("x")}},
		{"a sub-agent is not heard", "m:x | ok", []string{
			strings.Replace(delta("no"), `:null`, `:"toolu_1"`, 1), strings.Replace(whole("s", "no"), `:null`, `:"toolu_1"`, 1), start("a"), whole("a", "x"), stop, success("x")}},
		{"thoughts are no text", "m:x | ok", []string{
			event(`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}`),
			`line {"type":"assistant","message":{"id":"t","content":[{"type":"thinking","thinking":"hm"}]},"parent_tool_use_id":null}`, whole("y", "x"), success("x")}},
		{"a limit of the agent's", "failed PROVIDER_REQUEST_FAILED", []string{`line {"type":"result","subtype":"error_max_turns","is_error":true}`}},
		{"no login", "failed PROVIDER_AUTH_REQUIRED", []string{
			`line {"type":"assistant","message":{"id":"t","content":[{"type":"text","text":"Not logged in"}]},"error":"authentication_failed","parent_tool_use_id":null}`,
			`line {"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","result":"Not logged in · Please run /login"}`}},
		{"figures of another shape", "m:x | ok", []string{`line {"type":"result","subtype":"success","is_error":false,"result":"x","usage":7,"modelUsage":[],"model_usage_since_last_result":{"m":{"inputTokens":1.5}}}`}},
		{"figures of the oldest releases", "m:x | u:10 | ok", []string{`line {"type":"result","subtype":"success","is_error":false,"result":"x","usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, quick(), conformance.Knobs{})
			a, sink := r.Open(r.Spec("t1"))
			frames := r.Turn(a, sink, 1, strings.Join(append(tt.lines, "hang"), "\n"))
			// The figures come before what only the result tells.
			got := conformance.Words(frames)
			if got = strings.Replace(got, "u:10 | m:x", "m:x | u:10", 1); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestTheAgentsRequestsAreAnswered(t *testing.T) {
	ws := t.TempDir()
	inside := filepath.Join(ws, "file")
	if err := os.Symlink(t.TempDir(), filepath.Join(ws, "out")); err != nil {
		t.Skip("no links here: ", err)
	}
	ask := func(tool, input string) string {
		return fmt.Sprintf(`{"subtype":"can_use_tool","tool_name":%q,"input":%s,"tool_use_id":"u"}`, tool, input)
	}
	mcp := func(server, message string) string {
		return fmt.Sprintf(`{"subtype":"mcp_message","server_name":%q,"message":%s}`, server, message)
	}
	tests := []struct {
		name, request, want string
		permission          thread.Permission
	}{
		{"an edit inside", ask("Edit", `{"file_path":"`+inside+`","old_string":"a"}`), `"behavior":"allow"`, thread.PermitWorkspace},
		{"the input goes back unchanged", ask("Write", `{"file_path":"`+inside+`"}`), `"updatedInput":{"file_path":"` + inside + `"}`, thread.PermitWorkspace},
		{"an edit inside, read only", ask("Edit", `{"file_path":"`+inside+`"}`), `"behavior":"deny"`, thread.PermitReadOnly},
		{"a read inside, read only", ask("Read", `{"file_path":"`+inside+`"}`), `"behavior":"allow"`, thread.PermitReadOnly},
		{"an edit outside", ask("Write", `{"file_path":"/etc/passwd"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"an edit outside, everything allowed", ask("Write", `{"file_path":"/etc/passwd"}`), `"behavior":"allow"`, thread.PermitFull},
		{"a notebook outside", ask("NotebookEdit", `{"notebook_path":"/etc/x.ipynb","path":"`+inside+`"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"a read outside", ask("Read", `{"file_path":"/etc/passwd"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"a search without a place", ask("Grep", `{"pattern":"x"}`), `"behavior":"allow"`, thread.PermitWorkspace},
		{"files by a pattern", ask("Glob", `{"pattern":"**/*.{go,md}"}`), `"behavior":"allow"`, thread.PermitWorkspace},
		{"files by a pattern with dots", ask("Glob", `{"pattern":"app/[...slug]/*.tsx"}`), `"behavior":"allow"`, thread.PermitWorkspace},
		{"files by a pattern elsewhere", ask("Glob", `{"pattern":"/etc/*"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"files by a pattern that leads up", ask("Glob", `{"pattern":"../*","path":"`+ws+`"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"files by a pattern that may lead up", ask("Glob", `{"pattern":"src/{..,x}/../*"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"files by a pattern that may lead elsewhere", ask("Glob", `{"pattern":"{/etc,src}/*"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"files by a pattern through a link", ask("Glob", `{"pattern":"out/*","path":"`+ws+`"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"files by no pattern", ask("Glob", `{"pattern":["/etc/*"]}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"a command", ask("Bash", `{"command":"ls"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"two commands", ask("Bash", `{"command":"pedelec-cli x; rm -rf y"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"our own command", ask("Bash", `{"command":"pedelec-cli --thread-id t tool-spec add"}`), `"behavior":"allow"`, thread.PermitWorkspace},
		{"the page's tool", ask("mcp__pedelec__add", `{}`), `"behavior":"allow"`, thread.PermitReadOnly},
		{"another server's tool", ask("mcp__other__add", `{}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"the network", ask("WebFetch", `{"url":"http://x"}`), `"behavior":"deny"`, thread.PermitWorkspace},
		{"a question to the user", ask("AskUserQuestion", `{}`), `"message":"Nobody can be asked`, thread.PermitFull},
		{"something unknown", `{"subtype":"hook_callback"}`, `"subtype":"error"`, thread.PermitWorkspace},
		{"something without a shape", `7`, `"subtype":"error"`, thread.PermitWorkspace},
		{"another server", mcp("other", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), `"subtype":"error"`, thread.PermitWorkspace},
		{"a ping", mcp("pedelec", `{"jsonrpc":"2.0","id":1,"method":"ping"}`), `"result":{}`, thread.PermitWorkspace},
		{"an unknown method", mcp("pedelec", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`), `"code":-32601`, thread.PermitWorkspace},
		{"a call of another shape", mcp("pedelec", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`), `"code":-32602`, thread.PermitWorkspace},
		{"a call of no tool", mcp("pedelec", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no"}}`), `TOOL_NOT_FOUND`, thread.PermitWorkspace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, quick(), conformance.Knobs{})
			r.WS = ws
			spec := r.Spec("t1")
			spec.Permission = tt.permission
			a, _ := r.Open(spec)
			r.Start(a, 1, `line {"type":"control_request","request_id":"ask-1","request":`+tt.request+"}\nhang")
			answer := ""
			r.Until("the answer", func() bool {
				i := slices.IndexFunc(r.Read(), func(line string) bool { return strings.Contains(line, `"ask-1"`) })
				if i >= 0 {
					answer = r.Read()[i]
				}
				return i >= 0
			})
			if !strings.Contains(answer, tt.want) {
				t.Errorf("answered %s, want %s", answer, tt.want)
			}
		})
	}
}

func TestAWithdrawnQuestionIsNotAnswered(t *testing.T) {
	r := newRig(t, quick(), conformance.Knobs{})
	spec := r.Spec("t1")
	spec.Skills = &thread.Skills{Tools: []thread.Tool{{Name: "add", ArgsSchema: jsontext.Value(`{"type":"object"}`)}}}
	a, sink := r.Open(spec)
	r.Start(a, 1, `line {"type":"control_request","request_id":"call-1","request":{"subtype":"mcp_message","server_name":"pedelec","message":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}}}
line {"type":"control_cancel_request","request_id":"call-1"}
say m x`)
	call := sink.Called(0)
	if call.CallID != "call-1" || string(call.Args) != "{}" {
		t.Errorf("call %+v", call)
	}
	sink.Finished(1)
	if err := a.Conversation.AnswerTool(r.Ctx, call.CallID, thread.ToolAnswer{Result: jsontext.Value(`1`)}); err != nil {
		t.Error(err)
	}
	for _, line := range r.Read() {
		if strings.Contains(line, "call-1") && strings.Contains(line, `"type":"control_response"`) {
			t.Errorf("the agent read %s", line)
		}
	}
}

func TestAnIdleProcessStopsAndItsThreadGoesOn(t *testing.T) {
	agent := quick()
	agent.IdleStop = 50 * time.Millisecond
	r := newRig(t, agent, conformance.Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	r.Start(a, 1, "say m x\ngate")
	sink.Saw("x")
	first := r.PIDs()[0]
	r.OpenGates(first)
	sink.Finished(1)
	for id := uint64(2); id < 6; id++ { // an idle stop is no failure: nothing is refused
		r.Until("the idle stop", func() bool { return len(r.PIDs()) == 0 })
		if a.Conversation.Alive() {
			t.Error("the conversation outlived its process")
		}
		a, sink = r.Resume(r.Spec("t1"), a)
		if got := conformance.Told(r.Turn(a, sink, id, "say m y")); a.Fresh || got != "d:y | m:y | ok" {
			t.Errorf("attached %+v, %s", a, got)
		}
	}
}

func TestOnlySoManyProcessesLiveAtOnce(t *testing.T) {
	agent := quick()
	agent.MaxAlive = 2
	r := newRig(t, agent, conformance.Knobs{})
	one, first := r.Open(r.Spec("t1"))
	r.Turn(one, first, 1, "say m x")
	two, second := r.Open(r.Spec("t2"))
	r.Start(two, 1, "say m busy\ngate")
	second.Saw("busy")
	three, third := r.Open(r.Spec("t3")) // makes the idle one go
	r.Until("the idle one's end", func() bool { return !one.Conversation.Alive() })
	r.Start(three, 1, "say m busy\ngate")
	third.Saw("busy")
	if pids := r.PIDs(); len(pids) != 2 {
		t.Errorf("processes %v", pids)
	}
	// All are busy: the first thread waits for a turn to end, and then goes on.
	back := make(chan thread.Attachment, 1)
	spec := r.Spec("t1")
	spec.SessionID = one.SessionID
	sink := conformance.NewCollector(t)
	go func() {
		a, err := r.Manager.Attach(r.Ctx, spec, sink)
		if err != nil {
			t.Error(err)
		}
		back <- a
	}()
	for range 20 {
		if len(r.PIDs()) > 2 {
			t.Errorf("processes %v", r.PIDs())
		}
	}
	r.OpenGates(r.PIDs()...)
	second.Finished(1)
	third.Finished(1)
	a := <-back
	if a.Conversation == nil || a.Fresh || a.SessionID != one.SessionID {
		t.Fatalf("attached %+v", a)
	}
	if got := conformance.Told(r.Turn(a, sink, 2, "say m on")); got != "d:on | m:on | ok" {
		t.Error(got)
	}
}

func TestManyThreadsTakeTurnsOnFewProcesses(t *testing.T) {
	agent := quick()
	agent.MaxAlive = 3
	r := newRig(t, agent, conformance.Knobs{})
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			spec := r.Spec(fmt.Sprint("t", i))
			var a thread.Attachment
			var sink *conformance.Collector
			for id := uint64(1); id <= 3; id++ {
				if a.Conversation == nil || !a.Conversation.Alive() {
					spec.SessionID = a.SessionID
					sink = conformance.NewCollector(t)
					var err error
					if a, err = r.Manager.Attach(r.Ctx, spec, sink); err != nil {
						t.Errorf("%s: %v", spec.ThreadID, err)
						return
					}
				}
				if err := a.Conversation.StartTurn(r.Ctx, thread.Turn{ID: id, Text: "say m x"}); err != nil {
					t.Errorf("%s: %v", spec.ThreadID, err)
					return
				}
				if got := conformance.Told(sink.Finished(id)); got != "d:x | m:x | ok" {
					t.Errorf("%s: %s", spec.ThreadID, got)
				}
				if n := len(r.PIDs()); n > 3 {
					t.Errorf("%d processes", n)
				}
			}
		})
	}
	all.Wait()
}

func TestAFailingThreadIsRefusedAlone(t *testing.T) {
	r := newRig(t, quick(), conformance.Knobs{})
	for id := uint64(1); id <= 2; id++ {
		a, sink := r.Open(r.Spec("t1"))
		r.Start(a, id, "die")
		sink.Finished(id)
	}
	r.Refuse(r.Spec("t1"), fault.ProviderRuntimeStartFailed)
	a, sink := r.Open(r.Spec("t2"))
	if got := conformance.Told(r.Turn(a, sink, 1, "say m x")); got != "d:x | m:x | ok" {
		t.Error(got)
	}
}

func TestAHandshakeThatFailsLeavesNoProcess(t *testing.T) {
	agent := quick()
	agent.Handshake = 300 * time.Millisecond
	r := newRig(t, agent, conformance.Knobs{HangGreet: true, IgnoreTerm: true})
	r.Refuse(r.Spec("t1"), fault.ProviderRuntimeStartFailed)
	if pids := r.PIDs(); len(pids) != 0 {
		t.Errorf("processes %v are left", pids)
	}
}

func TestAProcessThatIgnoresEverythingIsEndedWithItsTurn(t *testing.T) {
	r := newRig(t, quick(), conformance.Knobs{IgnoreTerm: true})
	a, sink := r.Open(r.Spec("t1"))
	r.Turn(a, sink, 1, "say m x")
	for id := uint64(2); id < 5; id++ { // our own stops are no failures
		r.Start(a, id, "say m y\nhang")
		sink.Saw("y")
		pid := r.PIDs()[0]
		r.Cancel(a, id)
		a.Conversation.Abandon(id)
		a, sink = r.Resume(r.Spec("t1"), a)
		if a.Fresh || slices.Contains(r.PIDs(), pid) {
			t.Errorf("attached %+v, processes %v", a, r.PIDs())
		}
	}
}

func TestTheProgramBehindTheLauncherIsUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	vendor := filepath.Join(dir, "node_modules", "@anthropic-ai")
	launcher := filepath.Join(vendor, "claude-code", "bin", "claude.exe")
	program := filepath.Join(vendor, "claude-code-"+runtime.GOOS+"-"+strings.Replace(runtime.GOARCH, "amd64", "x64", 1), "claude")
	link := filepath.Join(dir, "claude")
	for _, file := range []string{launcher, program} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(launcher, link); err != nil {
		t.Fatal(err)
	}
	if got := native(link); got != program {
		t.Errorf("got %q, want %q", got, program)
	}
	if err := os.Truncate(launcher, 2<<20); err != nil { // the script has put the program there
		t.Fatal(err)
	}
	if got := native(link); got != "" {
		t.Errorf("a program that is there gives %q", got)
	}
}
