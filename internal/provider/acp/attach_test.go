package acp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestResumingASession(t *testing.T) {
	loadOnly := jsontext.Value(`{"loadSession":true}`)
	tests := []struct {
		name   string
		knobs  knobs
		method string
		lost   string // the sentence's beginning; "" = resumed
		code   fault.Code
	}{
		{name: "resume is preferred", method: "session/resume"},
		{name: "load is used without resume", knobs: knobs{Caps: loadOnly}, method: "session/load"},
		{name: "load that answers null", knobs: knobs{Caps: loadOnly, NullLoad: true}, method: "session/load"},
		{name: "load that tells the history first", knobs: knobs{Caps: loadOnly, Replay: true}, method: "session/load"},
		{name: "an agent that can do neither", knobs: knobs{Caps: jsontext.Value(`{}`)}, lost: "OpenCode cannot resume"},
		{name: "an unknown session", knobs: knobs{Lost: `{"code":-32602,"message":"Invalid params: session not found: x"}`}, method: "session/resume", lost: "OpenCode no longer knows"},
		{name: "an unknown session in opencode's words", knobs: knobs{Caps: loadOnly, Lost: `{"code":-32603,"message":"Internal error: OpenCode service failure","data":{"service":"session"}}`},
			method: "session/load", lost: "OpenCode no longer knows"},
		{name: "another refusal", knobs: knobs{Lost: `{"code":-32603,"message":"disk full"}`}, method: "session/resume", code: fault.ProviderRequestFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, OpenCode(), knobs{})
			spec := r.spec("t1")
			spec.Instructions = always("Be kind.")
			a, sink := r.open(spec)
			r.run(a, sink, 1, "first")
			before := r.pids()[0]
			tt.knobs.Dir = r.dir
			r.set(func(k *knobs) { *k = tt.knobs })

			spec.SessionID, spec.Instructed = a.SessionID, true
			if tt.code != "" {
				r.refuse(spec, tt.code)
				return
			}
			b, sink := r.open(spec)
			if tt.knobs.Lost+string(tt.knobs.Caps) != "" && !slices.ContainsFunc(r.pids(), func(pid int) bool { return pid != before }) {
				t.Error("other settings did not start another process")
			}
			if tt.lost == "" && (b.Fresh || b.SessionID != a.SessionID || b.Lost != nil) {
				t.Errorf("got %+v", b)
			}
			if tt.lost != "" && (!b.Fresh || b.SessionID == a.SessionID || b.Lost == nil ||
				b.Lost.Code != fault.ProviderSessionLost || !strings.HasPrefix(b.Lost.Msg, tt.lost)) {
				t.Errorf("got %+v", b)
			}
			if tt.method != "" && !slices.Contains(r.methods(), tt.method) {
				t.Errorf("the agent read %v", r.methods())
			}
			if got := words(r.run(b, sink, 2, "say m again")); got != "d:again | m:again | u:12 | ok" {
				t.Error(got)
			}
			if instructed := strings.Contains(r.prompts()[1], "Be kind."); instructed != b.Fresh {
				t.Errorf("instructions sent again: %v, fresh: %v", instructed, b.Fresh)
			}
			for _, f := range sink.all() {
				if strings.Contains(f.Text, "old") {
					t.Errorf("history came through: %+v", f)
				}
			}
		})
	}
}

func TestAResumeThatHangsHurtsOnlyItself(t *testing.T) {
	f := OpenCode()
	f.Open = time.Second
	r := newRig(t, f, knobs{HangResume: true})
	a, sink := r.open(r.spec("t1"))
	r.start(a, 1, "say m x\ngate")
	sink.sawText("x")

	spec := r.spec("t2")
	spec.SessionID = "ses_any"
	e := r.refuse(spec, fault.ProviderTimeout)
	eq(t, "operation", e.Details["operation"], "session/resume")
	b, other := r.open(r.spec("t3"))
	r.run(b, other, 1, "release")
	if got := words(sink.finished(1)); got != "d:x | m:x | u:12 | ok" {
		t.Error(got)
	}
}

func TestACallerWhoLeavesLeavesNoSessionBehind(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	a, _ := r.open(r.spec("t1"))
	r.set(func(k *knobs) { k.NewWaits = true })
	spec := r.spec("t2")
	ctx, leave := context.WithCancel(r.ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := r.manager.Attach(ctx, spec, newCollector(t))
		failed <- err
	}()
	r.until("session/new in the second process", func() bool {
		return len(slices.DeleteFunc(r.methods(), func(m string) bool { return m != "session/new" })) == 2
	})
	leave()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("attach: %v", err)
	}
	spec = r.spec("t3")
	spec.SessionID = a.SessionID // needs no session/new
	b, other := r.open(spec)
	r.run(b, other, 1, "release")
	r.until("the orphan's close", func() bool { return slices.Contains(r.methods(), "session/close") })
}

func TestModelAndEffortAreChosenAmongWhatIsOffered(t *testing.T) {
	state := jsontext.Value(`{"configOptions":[
		{"id":"model","category":"model","type":"select","currentValue":"old-model","options":[{"value":"old-model"},{"group":"g","name":"G","options":[{"value":"big"}]}]},
		{"id":"effort","category":"thought_level","type":"select","currentValue":"old-effort","options":[{"value":"high"}]}]}`)
	state = slices.DeleteFunc(state, func(b byte) bool { return b == '\n' || b == '\t' })
	r := newRig(t, OpenCode(), knobs{State: state})
	tests := []struct {
		name string
		args []string
		sets []string
		code fault.Code
	}{
		{name: "nothing asked", args: nil},
		{name: "a model in a group", args: []string{"--model", " big "}, sets: []string{"model=big"}},
		{name: "what it is already", args: []string{"--model", "old-model"}},
		{name: "model and effort", args: []string{"--effort", "high", "--model", "big"}, sets: []string{"model=big", "effort=high"}},
		{name: "an empty value", args: []string{"--model", " "}},
		{name: "a flag that this agent does not know", args: []string{"-x", "y"}},
		{name: "an unknown model", args: []string{"--model", "huge"}, code: fault.ProviderUnsupported},
		{name: "an option that is not offered", args: []string{"--fast", "true"}, code: fault.ProviderUnsupported},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := 0
			if len(r.manager.Runtimes()) > 0 {
				before = len(r.read())
			}
			spec := r.spec("t-" + tt.name)
			spec.EffortArgs = tt.args
			if tt.code != "" {
				r.refuse(spec, tt.code)
				r.until("the session's close", func() bool {
					all := r.methods()
					return all[len(all)-1] == "session/close"
				})
				return
			}
			r.open(spec)
			var sets []string
			for _, m := range r.read()[before:] {
				if m.Method == "session/set_config_option" {
					var p setOptionParams
					unmarshal(t, m.Params, &p)
					sets = append(sets, p.ConfigID+"="+p.Value)
				}
			}
			eq(t, "options set", sets, tt.sets)
		})
	}
}

func TestCursorWorksInTheModeThatActs(t *testing.T) {
	tests := []struct {
		name, state, want string
	}{
		{"by the mode list", `{"modes":{"currentModeId":"ask","availableModes":[{"id":"plan","name":"Plan agent"},{"id":"ask","name":"Ask"},{"id":"agent","name":"Agent"}]}}`, `session/set_mode agent`},
		{"by the option", `{"configOptions":[{"id":"mode","category":"mode","currentValue":"ask","options":[{"value":"ask"},{"value":"full-tools"}]}]}`, `session/set_config_option full-tools`},
		{"already there", `{"modes":{"currentModeId":"agent","availableModes":[{"id":"ask","name":"Ask"},{"id":"agent","name":"Agent"}]}}`, ``},
		{"no mode that acts", `{"modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"}]}}`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Cursor(), knobs{State: jsontext.Value(tt.state)})
			r.open(r.spec("t1"))
			got := ""
			for _, m := range r.read() {
				var p struct {
					ModeID string `json:"modeId"`
					Value  string `json:"value"`
				}
				unmarshal(t, m.Params, &p)
				if p.ModeID+p.Value != "" {
					got = m.Method + " " + p.ModeID + p.Value
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestALoginIsUsedButNeverWaitedFor(t *testing.T) {
	cursorLogin := jsontext.Value(`[{"id":"cursor_login","name":"Login"}]`)
	tests := []struct {
		name   string
		knobs  knobs
		env    map[string]string
		asked  bool
		code   fault.Code
		cursor bool
	}{
		{name: "none wanted", cursor: true},
		{name: "stored", knobs: knobs{AuthMethods: cursorLogin}, asked: true, cursor: true},
		{name: "by a key", knobs: knobs{AuthMethods: cursorLogin, AuthRefused: true}, env: map[string]string{"CURSOR_API_KEY": "k"}, cursor: true},
		{name: "refused", knobs: knobs{AuthMethods: cursorLogin, AuthRefused: true}, asked: true, code: fault.ProviderAuthRequired, cursor: true},
		{name: "waits for a person", knobs: knobs{AuthMethods: cursorLogin, AuthHangs: true}, asked: true, code: fault.ProviderAuthRequired, cursor: true},
		{name: "by other means only", knobs: knobs{AuthMethods: jsontext.Value(`[{"id":"sso"}]`)}, code: fault.ProviderAuthRequired, cursor: true},
		{name: "opencode's is not used", knobs: knobs{AuthMethods: jsontext.Value(`[{"id":"opencode-login"}]`)}},
		{name: "missing at the session", knobs: knobs{NewRefused: jsontext.Value(`{"code":-32000,"message":"Authentication required"}`)}, code: fault.ProviderAuthRequired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := OpenCode()
			if tt.cursor {
				f = Cursor()
			}
			f.Authenticate = time.Second
			r := newRig(t, f, tt.knobs)
			r.env = tt.env
			if tt.code != "" {
				e := r.refuse(r.spec("t1"), tt.code)
				if !strings.Contains(e.Message(), f.LoginCommand) {
					t.Errorf("%q does not say how to log in", e.Message())
				}
			} else {
				r.open(r.spec("t1"))
				r.open(r.spec("t2"))
			}
			asked := slices.DeleteFunc(r.methods(), func(m string) bool { return m != "authenticate" })
			if len(asked) > 1 || (len(asked) == 1) != tt.asked {
				t.Errorf("authenticate was sent %d times", len(asked))
			}
			if len(r.pids()) != 1 {
				t.Error("the process was not kept")
			}
		})
	}
}

func TestOpenCodeStartsLockedDown(t *testing.T) {
	tests := []struct {
		permission thread.Permission
		own, want  string
	}{
		{thread.PermitWorkspace, "", `{"external_directory":"deny","skill":"deny"}`},
		{thread.PermitReadOnly, "", `{"bash":"deny","edit":"deny","external_directory":"deny","skill":"deny"}`},
		{thread.PermitFull, "", ""},
		{thread.PermitWorkspace, `{"bash":"ask","skill":"allow"}`, `{"bash":"ask","external_directory":"deny","skill":"deny"}`},
		{thread.PermitFull, `{"bash":"ask"}`, `{"bash":"ask"}`},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.permission.String()+tt.own, func(t *testing.T) {
			env, err := openCodeEnv(tt.permission, func(name string) string {
				return map[string]string{"OPENCODE_PERMISSION": tt.own}[name]
			})
			if err != nil {
				t.Fatal(err)
			}
			eq(t, "permission", env["OPENCODE_PERMISSION"], tt.want)
			secret := env["OPENCODE_SERVER_PASSWORD"]
			if len(secret) != 64 || seen[secret] {
				t.Errorf("password %q", secret)
			}
			seen[secret] = true
			if env["OPENCODE_DISABLE_AUTOUPDATE"] != "1" || env["OPENCODE_DISABLE_LSP_DOWNLOAD"] != "1" {
				t.Errorf("environment %v", env)
			}
		})
	}
	r := newRig(t, OpenCode(), knobs{})
	r.env = map[string]string{"OPENCODE_PERMISSION": "allow everything"}
	e := r.refuse(r.spec("t1"), fault.ProviderRuntimeStartFailed)
	if !strings.Contains(e.Message(), "OPENCODE_PERMISSION") {
		t.Errorf("%q does not name the variable", e.Message())
	}
}

func TestTheAgentFindsTheDaemonAndItsCommand(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	r.open(r.spec("t1"))
	var path, file, code string
	for _, kv := range r.environ() {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "PATH":
			path = value
		case "PEDELEC_CORE_IPC_RUNTIME_FILE":
			file = value
		case "PEDELEC_PROVIDER":
			code = value
		}
	}
	if !strings.HasPrefix(path, r.home+"/bin:") || file != r.home+"/agent-runtime.json" || code != "opencode" {
		t.Errorf("PATH=%s file=%s provider=%s", path, file, code)
	}
}
