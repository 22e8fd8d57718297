package settings

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFile returns a settings file with this content; "" = no file.
func newFile(t testing.TB, content string) *File {
	t.Helper()
	f := New(filepath.Join(t.TempDir(), "settings.json"))
	if content != "" {
		put(t, f, content)
	}
	return f
}

func put(t testing.TB, f *File, content string) {
	t.Helper()
	must(t, os.WriteFile(f.Path(), []byte(content), 0o600))
}

func wantCode(t testing.TB, err error, code fault.Code, details ...string) *fault.Error {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	keys := slices.Sorted(maps.Keys(e.Details))
	slices.Sort(details)
	if !slices.Equal(keys, details) {
		t.Errorf("details %v, want keys %v", e.Details, details)
	}
	return e
}

func TestAMissingFileMeansDefaults(t *testing.T) {
	f := newFile(t, "")
	s := f.Current()
	want := Settings{
		Retention: Retention{JournalEvents: 10_000, JournalBytes: 16 << 20, EndedThreads: 720 * time.Hour, IdleThreads: 720 * time.Hour, StoreBytes: 4 << 30},
		Watchdogs: Watchdogs{Silence: 30 * time.Minute, SessionStart: time.Minute},
		Ollama:    Ollama{BaseURL: "http://127.0.0.1:11434", Timeout: 2 * time.Minute},
	}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreUnexported(Settings{})); diff != "" {
		t.Error(diff)
	}
	if code, err := f.DefaultProvider(); code != "" || err != nil {
		t.Errorf("default provider %q %v", code, err)
	}
	if f.Permission("codex") != PermitWorkspace || f.RequireToken() || len(f.Problems()) != 0 || len(f.Secrets()) != 0 {
		t.Error("a default is not as documented")
	}
	for _, code := range Providers[:5] {
		args, err := f.EffortArgs(code, "low")
		if err != nil || len(args) != 0 {
			t.Errorf("%s: %v %v", code, args, err)
		}
	}
	wantCode(t, func() error { _, err := f.EffortArgs("ollama", "default"); return err }(), fault.ModelRequired, "provider")
}

const full = `{
	"defaultProvider": "claude",
	"defaultModels": {"old": true},
	"providerSettings": {
		"codex": {"effortsArgs": {"default": ["-m", "gpt", "-c", "model_reasoning_effort=\"high\""], "low": []},
			"command": ["/opt/codex", "--x"], "env": {"OPENAI_API_KEY": "sk-very-secret", "LANG": "C"}, "permission": "full"},
		"claude": null,
		"ollama": {"baseUrl": "http://box:1/", "timeoutMs": 5000, "apiKey": " key-of-ollama ", "tavilyApiKey": "tvly", "effortsArgs": {"high": ["--model", "m"]}}
	},
	"wizardMetadata": {"providers": {"codex": {"appliedPresetRevision": 1}}},
	"requireToken": true,
	"allowedOrigins": ["https://a.example"],
	"pickerCommand": ["zenity", "--directory"],
	"retention": {"journalEvents": 5, "journalBytes": 6, "endedThreadDays": 0, "idleThreadDays": 7, "storeBytes": 8},
	"watchdogs": {"silenceSeconds": 0, "sessionStartSeconds": 90}
}`

func TestAFullFileIsRead(t *testing.T) {
	f := newFile(t, full)
	want := Settings{
		DefaultProvider: "claude",
		RequireToken:    true,
		AllowedOrigins:  []string{"https://a.example"},
		PickerCommand:   []string{"zenity", "--directory"},
		Retention:       Retention{JournalEvents: 5, JournalBytes: 6, EndedThreads: 0, IdleThreads: 7 * 24 * time.Hour, StoreBytes: 8},
		Watchdogs:       Watchdogs{Silence: 0, SessionStart: 90 * time.Second},
		Ollama:          Ollama{BaseURL: "http://box:1", Timeout: 5 * time.Second, APIKey: "key-of-ollama", TavilyAPIKey: "tvly"},
	}
	if diff := cmp.Diff(want, f.Current(), cmpopts.IgnoreUnexported(Settings{})); diff != "" {
		t.Error(diff)
	}
	if p := f.Problems(); len(p) != 0 {
		t.Errorf("problems %v", p)
	}
	args, err := f.EffortArgs("codex", "default")
	must(t, err)
	if want := []string{"-m", "gpt", "-c", `model_reasoning_effort="high"`}; !slices.Equal(args, want) {
		t.Errorf("effort %q", args)
	}
	args[0] = "changed by the caller"
	if again, _ := f.EffortArgs("codex", "default"); again[0] != "-m" {
		t.Error("the caller got the original")
	}
	command, err := f.Command("codex")
	must(t, err)
	if !slices.Equal(command, []string{"/opt/codex", "--x"}) || f.Permission("codex") != PermitFull {
		t.Errorf("command %q, permission %q", command, f.Permission("codex"))
	}
	if env := f.Env("codex"); env["LANG"] != "C" || len(env) != 2 {
		t.Errorf("env %v", env)
	}
	if got := f.Secrets(); !slices.Equal(got, []string{"key-of-ollama", "sk-very-secret", "tvly"}) {
		t.Errorf("secrets %q", got)
	}
	if args, err := f.EffortArgs("ollama", "high"); err != nil || !slices.Equal(args, []string{"--model", "m"}) {
		t.Errorf("ollama high: %q %v", args, err)
	}
}

func TestOneBadEntryIsReportedByPathAndStopsOnlyItself(t *testing.T) {
	for _, c := range []struct{ name, content, path string }{
		{"default provider unknown", `{"defaultProvider":"gemini"}`, "defaultProvider"},
		{"default provider a number", `{"defaultProvider":1}`, "defaultProvider"},
		{"providerSettings a list", `{"providerSettings":[]}`, "providerSettings"},
		{"unknown provider", `{"providerSettings":{"gemini":{}}}`, "providerSettings.gemini"},
		{"provider a string", `{"providerSettings":{"codex":"x"}}`, "providerSettings.codex"},
		{"efforts a list", `{"providerSettings":{"codex":{"effortsArgs":[]}}}`, "providerSettings.codex.effortsArgs"},
		{"level a string", `{"providerSettings":{"codex":{"effortsArgs":{"low":"-m"}}}}`, "providerSettings.codex.effortsArgs.low"},
		{"item a number", `{"providerSettings":{"codex":{"effortsArgs":{"low":[1,"x"]}}}}`, "providerSettings.codex.effortsArgs.low[0]"},
		{"unknown key", `{"providerSettings":{"codex":{"effortsArgs":{"low":["-x","y"]}}}}`, "providerSettings.codex.effortsArgs.low[0]"},
		{"bad value", `{"providerSettings":{"claude":{"effortsArgs":{"high":["--effort","warp"]}}}}`, "providerSettings.claude.effortsArgs.high[1]"},
		{"odd length", `{"providerSettings":{"claude":{"effortsArgs":{"high":["--effort"]}}}}`, "providerSettings.claude.effortsArgs.high"},
		{"command item", `{"providerSettings":{"codex":{"command":["a",null]}}}`, "providerSettings.codex.command[1]"},
		{"blank command", `{"providerSettings":{"codex":{"command":[" "]}}}`, "providerSettings.codex.command[0]"},
		{"empty command", `{"providerSettings":{"codex":{"command":[]}}}`, "providerSettings.codex.command"},
		{"NUL in command", `{"providerSettings":{"codex":{"command":["a","\u0000"]}}}`, "providerSettings.codex.command[1]"},
		{"env value", `{"providerSettings":{"codex":{"env":{"A":1}}}}`, "providerSettings.codex.env.A"},
		{"env name", `{"providerSettings":{"codex":{"env":{"A=B":"1"}}}}`, "providerSettings.codex.env.A=B"},
		{"permission", `{"providerSettings":{"codex":{"permission":"readonly"}}}`, "providerSettings.codex.permission"},
		{"ollama url", `{"providerSettings":{"ollama":{"baseUrl":"ftp://x"}}}`, "providerSettings.ollama.baseUrl"},
		{"ollama timeout", `{"providerSettings":{"ollama":{"timeoutMs":0}}}`, "providerSettings.ollama.timeoutMs"},
		{"require token", `{"requireToken":"yes"}`, "requireToken"},
		{"origin", `{"allowedOrigins":["https://a",7]}`, "allowedOrigins[1]"},
		{"picker", `{"pickerCommand":"zenity"}`, "pickerCommand"},
		{"retention", `{"retention":7}`, "retention"},
		{"journal events", `{"retention":{"journalEvents":0}}`, "retention.journalEvents"},
		{"negative days", `{"retention":{"endedThreadDays":-1}}`, "retention.endedThreadDays"},
		{"fraction", `{"watchdogs":{"silenceSeconds":1.5}}`, "watchdogs.silenceSeconds"},
		{"endless", `{"watchdogs":{"silenceSeconds":1e99}}`, "watchdogs.silenceSeconds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFile(t, c.content)
			problems := f.Problems()
			if len(problems) != 1 || problems[0].Path != c.path || problems[0].Msg == "" {
				t.Fatalf("problems %v, want one at %s", problems, c.path)
			}
			if _, err := f.DefaultProvider(); err != nil {
				t.Errorf("the default provider is withheld: %v", err)
			}
			if c.path != "providerSettings" {
				if _, err := f.EffortArgs("opencode", "low"); err != nil {
					t.Errorf("another provider is stopped: %v", err)
				}
			}
		})
	}
}

func TestABadEntryIsReadNarrowly(t *testing.T) {
	f := newFile(t, `{"requireToken":"no","providerSettings":{"codex":{"permission":"ful"},"claude":7,"cursor":{"effortsArgs":{"low":[3]},"command":[1]}}}`)
	if !f.RequireToken() || f.Permission("codex") != PermitReadOnly || f.Permission("claude") != PermitReadOnly {
		t.Error("a bad entry opened something")
	}
	for _, c := range []struct{ code, level string }{{"claude", "default"}, {"cursor", "low"}, {"gemini", "low"}, {"codex", "medium"}} {
		_, err := f.EffortArgs(c.code, c.level)
		wantCode(t, err, fault.InvalidInput, "provider", "effortLevel")
	}
	for _, code := range []string{"cursor", "claude"} {
		_, err := f.Command(code)
		wantCode(t, err, fault.InvalidInput, "provider")
	}
	if _, err := f.EffortArgs("cursor", "high"); err != nil {
		t.Errorf("another level is stopped: %v", err)
	}
}

func TestEffortPairs(t *testing.T) {
	for _, c := range []struct {
		code string
		args []string
		at   int
		ok   bool
	}{
		{"codex", nil, wholeList, true},
		{"codex", []string{"-m", "gpt"}, wholeList, true},
		{"codex", []string{"-c", "model_reasoning_effort=xhigh"}, wholeList, true},
		{"codex", []string{"-c", `model_reasoning_effort = " max "`, "-m", "x"}, wholeList, true},
		{"codex", []string{"-c", `model_reasoning_effort="max`}, 1, false},
		{"codex", []string{"-c", "model_reasoning_effort=MAX"}, 1, false},
		{"codex", []string{"-c", "model_reasoning_effort=none"}, 1, false},
		{"codex", []string{"-c", "sandbox_mode=danger-full-access"}, 1, false},
		{"codex", []string{"--model", "x"}, 0, false},
		{"codex", []string{"-m"}, wholeList, false},
		{"codex", []string{"-m", " "}, 1, false},
		{"codex", []string{"-m", "a", "-m", "b"}, 2, false},
		{"antigravity", []string{"--model", "x", "--effort", "high"}, wholeList, true},
		{"antigravity", []string{"--effort", "xhigh"}, 1, false},
		{"claude", []string{"--effort", "max"}, wholeList, true},
		{"claude", []string{"--effort", "none"}, 1, false},
		{"opencode", []string{"--model", "a/b"}, wholeList, true},
		{"opencode", []string{"--effort", "low"}, 0, false},
		{"cursor", []string{"--model", "x"}, wholeList, true},
		{"ollama", []string{"--model", "x"}, wholeList, true},
		{"ollama", []string{"-m", "x"}, 0, false},
	} {
		at, msg := checkPairs(c.code, c.args)
		if (msg == "") != c.ok || at != c.at {
			t.Errorf("%s %q: at %d, %q", c.code, c.args, at, msg)
		}
	}
}
