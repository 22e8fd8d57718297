package codex

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/conformance"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func newRig(t *testing.T, k conformance.Knobs) *conformance.Rig {
	k.Dir = t.TempDir()
	return conformance.NewRig(t, quick().Driver(), fake(k), k.Dir)
}

// asked returns the params of the requests of one method that the fakes read.
func asked(r *conformance.Rig, method string) []jsontext.Value {
	r.Helper()
	var all []jsontext.Value
	for _, line := range r.Read() {
		if m, err := jsonrpc.Decode([]byte(line)); err == nil && m.Method == method {
			all = append(all, m.Params)
		}
	}
	return all
}

// flat writes JSON with its members in order.
func flat(t *testing.T, v jsontext.Value) string {
	t.Helper()
	if err := v.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func TestASessionIsOpenedWithWhatTheThreadBrings(t *testing.T) {
	r := newRig(t, conformance.Knobs{})
	spec := r.Spec("t1")
	spec.EffortArgs = []string{"-m", "gpt-x", "-c", `model_reasoning_effort = "high"`}
	spec.Instructions = func(c thread.ToolChannel) string { return fmt.Sprint("be kind, tools ", c == thread.ToolsNative) }
	spec.Skills = &thread.Skills{Tools: []thread.Tool{{Name: "canvas.paint", Description: "paints", ArgsSchema: jsontext.Value(`{"type":"object"}`)}}}
	tmp := filepath.Join(r.WS, ".pedelec-runtime", "threads", "t1", "tmp")
	a, sink := r.Open(spec)
	r.Turn(a, sink, 1, "/init is text")
	paint := thread.ModelNames(spec.Skills.Tools).Model["canvas.paint"]
	common := fmt.Sprintf(`"approvalPolicy":"never","config":{"model_reasoning_effort":"high","shell_environment_policy.set":{"TEMP":%[1]q,"TMP":%[1]q,"TMPDIR":%[1]q}},"cwd":%[2]q,"developerInstructions":"be kind, tools true"`, tmp, r.WS)
	tool := fmt.Sprintf(`,"dynamicTools":[{"description":"paints","inputSchema":{"type":"object"},"name":%q,"type":"function"}]`, paint)
	if got, want := flat(t, asked(r, "thread/start")[0]), "{"+common+tool+`,"model":"gpt-x","sandbox":"workspace-write"}`; got != want {
		t.Errorf("thread/start\n got %s\nwant %s", got, want)
	}
	want := fmt.Sprintf(`{"approvalPolicy":"never","cwd":%[1]q,"effort":"high","input":[{"text":"/init is text","type":"text"}],"model":"gpt-x","sandboxPolicy":{"excludeSlashTmp":true,"excludeTmpdirEnvVar":true,"networkAccess":false,"type":"workspaceWrite","writableRoots":[%[1]q]},"threadId":%[2]q}`, r.WS, a.SessionID)
	if got := flat(t, asked(r, "turn/start")[0]); got != want {
		t.Errorf("turn/start\n got %s\nwant %s", got, want)
	}
	r.Resume(spec, a)
	if got, want := flat(t, asked(r, "thread/resume")[0]), fmt.Sprintf(`{%s,"excludeTurns":true,"model":"gpt-x","sandbox":"workspace-write","threadId":%q}`, common, a.SessionID); got != want {
		t.Errorf("thread/resume\n got %s\nwant %s", got, want)
	}
	if info, err := os.Stat(tmp); err != nil || info.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
		t.Errorf("folder for temporary files: %v, %v", info, err)
	}
}

func TestTheSandboxIsAsWideAsThePermission(t *testing.T) {
	for permission, want := range map[thread.Permission][2]string{
		thread.PermitReadOnly: {`"read-only"`, `{"networkAccess":false,"type":"readOnly"}`},
		thread.PermitFull:     {`"danger-full-access"`, `{"type":"dangerFullAccess"}`},
	} {
		r := newRig(t, conformance.Knobs{})
		spec := r.Spec("t1")
		spec.Permission = permission
		a, sink := r.Open(spec)
		r.Turn(a, sink, 1, "x")
		if got := flat(t, asked(r, "thread/start")[0]); !strings.Contains(got, `"sandbox":`+want[0]) || strings.Contains(got, "TMPDIR") {
			t.Errorf("%v: %s", permission, got)
		}
		if got := flat(t, asked(r, "turn/start")[0]); !strings.Contains(got, `"sandboxPolicy":`+want[1]) {
			t.Errorf("%v: %s", permission, got)
		}
	}
}

func TestLongInstructionsAreNoArgumentAndTheEnvironmentHoldsNoSecret(t *testing.T) {
	t.Setenv("PEDELEC_TOKEN", "of-the-daemon")
	t.Setenv("UNRELATED_API_KEY", "of-another-program")
	t.Setenv("CODEX_PROBE", "of-codex")
	r := newRig(t, conformance.Knobs{})
	spec := r.Spec("t1")
	guidance := strings.Repeat("guidance ", 200<<10/9)
	spec.Instructions = func(thread.ToolChannel) string { return guidance }
	spec.Tools = thread.ToolAccess{MCPURL: "http://127.0.0.1:1/mcp/t1", MCPSecret: "secret-of-t1"}
	a, sink := r.Open(spec)
	if got := conformance.Told(r.Turn(a, sink, 1, "say m x")); got != "d:x | m:x | ok" {
		t.Error(got)
	}
	for _, args := range r.Args() {
		if !slices.Equal(args, []string{"app-server"}) {
			t.Errorf("arguments %q", args)
		}
	}
	var names []string
	for _, kv := range r.Environ() {
		if strings.Contains(kv, "of-the-daemon") || strings.Contains(kv, "of-another-program") || strings.Contains(kv, "secret-of-t1") || strings.Contains(kv, "guidance") {
			t.Errorf("the environment holds %.40s", kv)
		}
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	for _, name := range []string{"CODEX_PROBE", provider.RuntimeFileEnv, provider.ProviderEnv} {
		if !slices.Contains(names, name) {
			t.Errorf("the environment lacks %s", name)
		}
	}
	var p openParams
	if err := json.Unmarshal(asked(r, "thread/start")[0], &p); err != nil || p.DeveloperInstructions != guidance {
		t.Errorf("instructions of %d bytes, %v", len(p.DeveloperInstructions), err)
	}
}

func TestEveryRequestOfTheAgentIsAnswered(t *testing.T) {
	tests := map[string]string{
		"item/commandExecution/requestApproval": `{"id":77,"result":{"decision":"decline"}}`,
		"item/fileChange/requestApproval":       `{"id":77,"result":{"decision":"decline"}}`,
		"item/permissions/requestApproval":      `{"id":77,"result":{"permissions":{}}}`,
		"item/tool/requestUserInput":            `{"id":77,"result":{"answers":{}}}`,
		"mcpServer/elicitation/request":         `{"id":77,"result":{"action":"cancel"}}`,
		"applyPatchApproval":                    `{"id":77,"result":{"decision":"denied"}}`,
		"execCommandApproval":                   `{"id":77,"result":{"decision":"denied"}}`,
		"account/chatgptAuthTokens/refresh":     `{"id":77,"error":{"code":-32601,"message":"Method not found"}}`,
		"attestation/generate":                  `{"id":77,"error":{"code":-32601,"message":"Method not found"}}`,
		"a/method/of/the/future":                `{"id":77,"error":{"code":-32601,"message":"Method not found"}}`,
		"item/tool/call":                        `{"id":77,"error":{"code":-32602,"message":"The call cannot be read"}}`,
	}
	for method, want := range tests {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, conformance.Knobs{})
			a, sink := r.Open(r.Spec("t1"))
			r.Turn(a, sink, 1, fmt.Sprintf(`line {"id":77,"method":%q,"params":{"threadId":"$THREAD","turnId":"$TURN"}}`, method))
			r.Until("the answer", func() bool { return slices.Contains(r.Read(), want) })
		})
	}
}

func TestATextThatTheAgentRefusesFailsItsTurn(t *testing.T) {
	r := newRig(t, conformance.Knobs{Refuse: "quota used up, token=abcdefghijklmnop"})
	e := r.Refuse(r.Spec("t1"), fault.ProviderRequestFailed)
	if e.Details["message"] != "quota used up, token=[redacted]" || e.Details["errorCode"] != -32600 {
		t.Errorf("details %v", e.Details)
	}
}

func TestFramesFindTheirTurn(t *testing.T) {
	delta := `line {"method":"item/agentMessage/delta","params":{"threadId":"$THREAD","turnId":%q,"itemId":"z","delta":"stray"}}`
	tests := []struct {
		name, want string
		lines      []string
	}{
		{"what comes before the answer counts", "d:pre | d:x | m:x | ok", []string{"say early x"}},
		{"an old turn does not speak", "d:x | m:x | ok", []string{fmt.Sprintf(delta, "turn-of-before"), "say m x"}},
		{"another conversation does not speak", "d:x | m:x | ok", []string{strings.Replace(fmt.Sprintf(delta, "$TURN"), "$THREAD", "other", 1), "say m x"}},
		{"a message that only the end tells", "m:whole | ok", []string{`line {"method":"turn/completed","params":{"threadId":"$THREAD","turn":{"id":"$TURN","status":"completed","items":[{"type":"agentMessage","id":"a","text":"whole"}]}}}`}},
		{"a message is told once", "m:whole | ok", []string{
			`line {"method":"item/completed","params":{"threadId":"$THREAD","turnId":"$TURN","item":{"type":"agentMessage","id":"a","text":"whole"}}}`,
			`line {"method":"turn/completed","params":{"threadId":"$THREAD","turn":{"id":"$TURN","status":"completed","items":[{"type":"agentMessage","id":"a","text":"whole"}]}}}`,
		}},
		{"thoughts and plans are no text", "d:x | m:x | ok", []string{
			`line {"method":"item/completed","params":{"threadId":"$THREAD","turnId":"$TURN","item":{"type":"reasoning","id":"a","text":"hm"}}}`,
			`line {"method":"item/plan/delta","params":{"threadId":"$THREAD","turnId":"$TURN","delta":"hm"}}`, "say m x",
		}},
		{"a state of the future", "failed PROVIDER_PROTOCOL_ERROR", []string{`line {"method":"turn/completed","params":{"threadId":"$THREAD","turn":{"id":"$TURN","status":"tired"}}}`}},
		{"a failure without a reason", "failed PROVIDER_REQUEST_FAILED", []string{`line {"method":"turn/completed","params":{"threadId":"$THREAD","turn":{"id":"$TURN","status":"failed"}}}`}},
		{"unauthorized", "failed PROVIDER_AUTH_REQUIRED", []string{`line {"method":"turn/completed","params":{"threadId":"$THREAD","turn":{"id":"$TURN","status":"failed","error":{"message":"log in","codexErrorInfo":"unauthorized"}}}}`}},
		{"params of another shape", "d:x | m:x | ok", []string{`line {"method":"item/completed","params":7}`, `line {"method":"turn/completed","params":{"turn":5}}`, "say m x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, conformance.Knobs{})
			a, sink := r.Open(r.Spec("t1"))
			if got := conformance.Told(r.Turn(a, sink, 1, strings.Join(tt.lines, "\n"))); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAConversationInTheArchiveIsTakenOutAgain(t *testing.T) {
	r := newRig(t, conformance.Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	r.Turn(a, sink, 1, "say m x")
	r.Kill(r.PIDs()[0]) // as if it had died between letting it go and putting it back
	file := filepath.Join(r.Dir, a.SessionID)
	if err := os.Rename(file, file+".archived"); err != nil {
		t.Fatal(err)
	}
	again, sink := r.Resume(r.Spec("t1"), a)
	if again.Fresh || conformance.Told(r.Turn(again, sink, 2, "say m y")) != "d:y | m:y | ok" {
		t.Errorf("attached %+v", again)
	}
}

func TestAConversationThatIsOpenElsewhereIsWaitedForNotForEver(t *testing.T) {
	agent := quick()
	agent.Patience = 100 * time.Millisecond
	k := conformance.Knobs{Dir: t.TempDir()}
	r := conformance.NewRig(t, agent.Driver(), fake(k), k.Dir)
	spec := r.Spec("t1")
	spec.SessionID = "01a22d68-0000-7000-8000-000000000001"
	for name, text := range map[string]string{spec.SessionID: "0", spec.SessionID + ".lock": fmt.Sprint(os.Getpid())} {
		if err := os.WriteFile(filepath.Join(r.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS == "windows" {
		t.Skip("the fake does not look for processes there")
	}
	e := r.Refuse(spec, fault.ProviderRequestFailed)
	if !strings.HasPrefix(e.Message(), "Another Codex process has this conversation open") {
		t.Errorf("%q", e.Message())
	}
	if err := os.Remove(filepath.Join(r.Dir, spec.SessionID+".lock")); err != nil {
		t.Fatal(err)
	}
	if a, _ := r.Open(spec); a.Fresh {
		t.Errorf("attached %+v", a)
	}
}

func TestAConversationThatWasResumedTooLateIsLetGo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fake does not look for processes there")
	}
	agent := quick()
	agent.Open = 500 * time.Millisecond
	k := conformance.Knobs{Dir: t.TempDir(), SlowResume: true}
	r := conformance.NewRig(t, agent.Driver(), fake(k), k.Dir)
	busy, sink := r.Open(r.Spec("busy")) // keeps the first process
	r.Start(busy, 1, "say m busy\nwait")
	sink.Saw("busy")
	first := r.PIDs()[0]
	spec := r.Spec("t1")
	spec.SessionID = "01a22d68-0000-7000-8000-000000000001"
	if err := os.WriteFile(filepath.Join(r.Dir, spec.SessionID), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Refuse(spec, fault.ProviderTimeout)
	r.OpenGates(first)
	r.Until("the late answer", func() bool {
		_, err := os.Stat(filepath.Join(r.Dir, spec.SessionID+".lock"))
		return err == nil
	})
	spec.Permission = thread.PermitReadOnly // needs a process of its own
	k.SlowResume = false
	r.Use(fake(k))
	a, sink := r.Open(spec)
	if got := conformance.Told(r.Turn(a, sink, 1, "say m x")); a.Fresh || got != "d:x | m:x | ok" {
		t.Errorf("attached %+v, %s", a, got)
	}
	if !slices.Contains(r.PIDs(), first) {
		t.Error("the first process is gone, which shows nothing")
	}
}

func TestAConversationThatWasPutAsideIsOpenedAgain(t *testing.T) {
	r := newRig(t, conformance.Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	r.Turn(a, sink, 1, "say m x")
	if err := os.Remove(filepath.Join(r.Dir, a.SessionID+".lock")); err != nil { // the fake has it in memory no more
		t.Fatal(err)
	}
	if got := conformance.Told(r.Turn(a, sink, 2, "say m y")); got != "failed PROVIDER_REQUEST_FAILED" || a.Conversation.Alive() {
		t.Errorf("%s; alive: %t", got, a.Conversation.Alive())
	}
	again, sink := r.Resume(r.Spec("t1"), a)
	if got := conformance.Told(r.Turn(again, sink, 3, "say m z")); again.Fresh || got != "d:z | m:z | ok" {
		t.Errorf("attached %+v, %s", again, got)
	}
}

func TestATurnGoesOnWhoseRequestIsAnsweredAtTooGreatLength(t *testing.T) {
	r := newRig(t, conformance.Knobs{})
	a, sink := r.Open(r.Spec("t1"))
	if got := conformance.Told(r.Turn(a, sink, 1, "say longstart x")); got != "d:x | m:x | ok" {
		t.Error(got)
	}
	if got := conformance.Told(r.Turn(a, sink, 2, "say longstarted x")); got != "d:x | m:x | ok" {
		t.Error(got)
	}
	if got := conformance.Told(r.Turn(a, sink, 3, "refuse at length")); got != "failed PROVIDER_REQUEST_FAILED" {
		t.Error(got)
	}
	if got := conformance.Told(r.Turn(a, sink, 4, "say m y")); got != "d:y | m:y | ok" {
		t.Error(got)
	}
}

// TestATurnThatNothingNamesEndsSoon begins a turn whose id cannot be read: the
// watchdog would take half an hour, and nobody could interrupt it.
func TestATurnThatNothingNamesEndsSoon(t *testing.T) {
	k := conformance.Knobs{Dir: t.TempDir()}
	agent := quick()
	agent.Control = 100 * time.Millisecond
	r := conformance.NewRig(t, agent.Driver(), fake(k), k.Dir)
	a, sink := r.Open(r.Spec("t1"))
	if got := conformance.Told(r.Turn(a, sink, 1, "begin at length")); got != "failed PROVIDER_PROTOCOL_ERROR" {
		t.Error(got)
	}
	if a.Conversation.Alive() {
		t.Error("the conversation takes a turn while the agent is at work")
	}
	again, sink := r.Resume(r.Spec("t1"), a) // in another process, since the first cannot be stopped otherwise
	if got := conformance.Told(r.Turn(again, sink, 2, "say m y")); got != "d:y | m:y | ok" {
		t.Error(got)
	}
}

func TestThreadsShareOneProcess(t *testing.T) {
	r := newRig(t, conformance.Knobs{})
	for i := range 5 {
		r.Open(r.Spec(fmt.Sprint("t", i)))
	}
	if infos := r.Manager.Runtimes(); len(infos) != 1 || infos[0].Sessions != 5 {
		t.Errorf("runtimes %+v", infos)
	}
}

func TestTheProgramBehindTheLauncherIsUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	platform := "codex-" + npmSystem() + "-" + npmMachine()
	for name, program := range map[string]string{
		"beside":          "@openai/" + platform + "/vendor/triple/bin/codex",
		"inside":          "@openai/codex/node_modules/@openai/" + platform + "/vendor/triple/bin/codex",
		"an old release":  "@openai/codex/vendor/triple/codex/codex",
		"an odd [folder]": "@openai/" + platform + "/vendor/triple/bin/codex",
		"missing":         "",
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			modules := filepath.Join(dir, "lib [1]", "node_modules")
			launcher := filepath.Join(modules, "@openai", "codex", "bin", "codex.js")
			want := ""
			files := []string{launcher}
			if program != "" {
				want = filepath.Join(modules, filepath.FromSlash(program))
				files = append(files, want)
			}
			for _, file := range files {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			link := filepath.Join(dir, "codex")
			if err := os.Symlink(launcher, link); err != nil {
				t.Fatal(err)
			}
			if got := native(link); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	if got := native("/bin/sh"); got != "" {
		t.Errorf("a program that launches nothing gives %q", got)
	}
}

func TestEffortArgumentsAreRead(t *testing.T) {
	for text, want := range map[string]efforts{
		"":                                     {},
		"-m|m1":                                {model: "m1"},
		"-m|":                                  {},
		"-m| m1 ":                              {model: "m1"},
		`-c|model_reasoning_effort="low"|-m|m`: {model: "m", reasoning: "low"},
		`-c| model_reasoning_effort = max `:    {reasoning: "max"},
		`-c|sandbox_mode="x"`:                  {},
		"-m":                                   {},
	} {
		var args []string
		if text != "" {
			args = strings.Split(text, "|")
		}
		if got := parseEfforts(args); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
