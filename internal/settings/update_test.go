package settings

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func update(t *testing.T, f *File, change string) jsontext.Value {
	t.Helper()
	got, err := f.Update(t.Context(), jsontext.Value(change))
	must(t, err)
	return got
}

// armed arms failpoints for one test.
func armed(t *testing.T, spec string) {
	t.Helper()
	must(t, fault.Arm(spec))
	t.Cleanup(func() { _ = fault.Arm("") })
}

func TestAnUpdateMergesAndKeepsWhatItDoesNotKnow(t *testing.T) {
	f := newFile(t, `{"zeta":[1,2],"wizardMetadata":{"x":1},"providerSettings":{"codex":{"own":true,"effortsArgs":{"low":["-m","a"]}},"cursor":{"permission":"full"}},"requireToken":true}`)
	got := update(t, f, `{"defaultProvider":"codex","providerSettings":{"codex":{"effortsArgs":{"high":["-m","b"]},"env":{"A":"1"}}},"requireToken":null}`)
	want := `{"zeta":[1,2],"wizardMetadata":{"x":1},"providerSettings":{"codex":{"own":true,"effortsArgs":{"low":["-m","a"],"high":["-m","b"]},"env":{"A":"1"}},"cursor":{"permission":"full"}},"defaultProvider":"codex"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	data, err := os.ReadFile(f.Path())
	must(t, err)
	compact := jsontext.Value(data).Clone()
	must(t, compact.Compact())
	if string(compact) != want {
		t.Errorf("the file holds %s", data)
	}
	if !strings.Contains(string(data), "\n  \"zeta\"") || !strings.HasSuffix(string(data), "}\n") {
		t.Errorf("the file is not laid out for people: %s", data)
	}
	if code, err := f.DefaultProvider(); code != "codex" || err != nil {
		t.Errorf("default provider %q %v", code, err)
	}
	update(t, f, `{"defaultProvider":null}`)
	if code, _ := f.DefaultProvider(); code != "" {
		t.Errorf("null left %q", code)
	}
}

func TestAFirstUpdateMakesAPrivateFileThatTheDesktopAppReads(t *testing.T) {
	f := newFile(t, "")
	if got, want := string(update(t, f, `{"requireToken":false}`)), `{"requireToken":false,"providerSettings":{}}`; got != want {
		t.Errorf("got %s", got)
	}
	got := string(update(t, f, `{"providerSettings":{"ollama":{"apiKey":" k "}}}`))
	if want := `"ollama":{"apiKey":"k","timeoutMs":120000,"baseUrl":"http://127.0.0.1:11434"}`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	got = string(update(t, f, `{"providerSettings":{"ollama":{"baseUrl":"https://box/x/","timeoutMs":1}}}`))
	if want := `"ollama":{"apiKey":"k","timeoutMs":1,"baseUrl":"https://box/x"}`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	info, err := os.Stat(f.Path())
	must(t, err)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode().Perm())
	}
}

func TestAnUpdateIsRefused(t *testing.T) {
	type detail = []string
	shape := detail{"type", "error"}
	for _, c := range []struct {
		name, before, change string
		code                 fault.Code
		details              detail
	}{
		{"not JSON", "", `{`, fault.IPCUnavailable, shape},
		{"null", "", `null`, fault.IPCUnavailable, shape},
		{"absent", "", ``, fault.IPCUnavailable, shape},
		{"a list", "", `[]`, fault.IPCUnavailable, shape},
		{"unknown default", "", `{"defaultProvider":"x"}`, fault.IPCUnavailable, shape},
		{"unknown provider", "", `{"providerSettings":{"x":{}}}`, fault.IPCUnavailable, shape},
		{"wrong type", "", `{"providerSettings":{"codex":{"effortsArgs":{"low":[1]}}}}`, fault.IPCUnavailable, shape},
		{"unknown permission", "", `{"providerSettings":{"codex":{"permission":"all"}}}`, fault.IPCUnavailable, shape},
		{"negative", "", `{"providerSettings":{"ollama":{"timeoutMs":-1}}}`, fault.IPCUnavailable, shape},
		{"default not available", "", `{"defaultProvider":"cursor"}`, fault.DefaultProviderUnavailable, detail{"provider", "error"}},
		{"availability before efforts", "", `{"defaultProvider":"cursor","providerSettings":{"codex":{"effortsArgs":{"low":["-x","y"]}}}}`, fault.DefaultProviderUnavailable, detail{"provider", "error"}},
		{"effort rule", "", `{"providerSettings":{"codex":{"effortsArgs":{"low":["-x","y"]}}}}`, fault.InvalidInput, detail{"provider", "effortLevel"}},
		{"efforts before the URL", "", `{"providerSettings":{"ollama":{"baseUrl":"x","effortsArgs":{"low":["-x","y"]}}}}`, fault.InvalidInput, detail{"provider", "effortLevel"}},
		{"URL", "", `{"providerSettings":{"ollama":{"baseUrl":"ftp://x","timeoutMs":0}}}`, fault.OllamaBaseURLInvalid, detail{"field", "value", "error"}},
		{"URL with api", "", `{"providerSettings":{"ollama":{"baseUrl":"http://x/API/"}}}`, fault.OllamaBaseURLInvalid, detail{"field", "value", "error"}},
		{"URL without host", "", `{"providerSettings":{"ollama":{"baseUrl":"http:///x"}}}`, fault.OllamaBaseURLInvalid, detail{"field", "value", "error"}},
		{"timeout", "", `{"providerSettings":{"ollama":{"timeoutMs":0}}}`, fault.OllamaRequestFailed, detail{"field", "value"}},
		{"retention", "", `{"retention":{"journalEvents":0}}`, fault.InvalidInput, detail{"error"}},
		{"ollama without a key", "", `{"defaultProvider":"ollama"}`, fault.OllamaAPIKeyRequired, nil},
		{"ollama with a blank key", "", `{"defaultProvider":"ollama","providerSettings":{"ollama":{"apiKey":" "}}}`, fault.OllamaAPIKeyRequired, nil},
		{"ollama without a model", "", `{"defaultProvider":"ollama","providerSettings":{"ollama":{"apiKey":"k"}}}`, fault.ModelRequired, detail{"provider"}},
		{"ollama loses its model", `{"defaultProvider":"ollama","providerSettings":{"ollama":{"apiKey":"k","effortsArgs":{"default":["--model","m"]}}}}`, `{"providerSettings":{"ollama":{"effortsArgs":{"default":[]}}}}`, fault.ModelRequired, detail{"provider"}},
		{"too large", "", `{"x":"` + strings.Repeat("x", MaxFileBytes) + `"}`, fault.SettingsWriteFailed, detail{"path", "error"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFile(t, c.before)
			f.Available = func(code string) (bool, string) { return code != "cursor", "not on PATH" }
			_, err := f.Update(t.Context(), jsontext.Value(c.change))
			wantCode(t, err, c.code, c.details...)
			data, err := os.ReadFile(f.Path())
			if c.before == "" && !errors.Is(err, os.ErrNotExist) || c.before != string(data) {
				t.Errorf("the file became %q (%v)", data, err)
			}
		})
	}
}

func TestAnOldMistakeDoesNotStopANewChoice(t *testing.T) {
	f := newFile(t, `{"defaultProvider":"cursor","providerSettings":{"codex":{"effortsArgs":{"low":["-x","y"]}},"ollama":{"baseUrl":"ftp://x"}}}`)
	f.Available = func(string) (bool, string) { return false, "gone" }
	update(t, f, `{"requireToken":true}`)
	if !f.RequireToken() || len(f.Problems()) != 2 {
		t.Errorf("token %v, problems %v", f.RequireToken(), f.Problems())
	}
}

func TestAWriteThatFailsLeavesTheOldFile(t *testing.T) {
	f := newFile(t, `{"defaultProvider":"codex"}`)
	armed(t, "settings.write.before-rename=error")
	_, err := f.Update(t.Context(), []byte(`{"defaultProvider":"claude"}`))
	wantCode(t, err, fault.SettingsWriteFailed, "path", "error")
	if code, err := f.DefaultProvider(); code != "codex" || err != nil {
		t.Errorf("default provider %q %v", code, err)
	}
	entries, err := os.ReadDir(filepath.Dir(f.Path()))
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestAWriteInAFolderThatIsGone(t *testing.T) {
	f := New(filepath.Join(t.TempDir(), "gone", "settings.json"))
	_, err := f.Update(t.Context(), []byte(`{}`))
	wantCode(t, err, fault.SettingsWriteFailed, "path", "error")
}

func TestALinkedFileStaysALink(t *testing.T) {
	f := newFile(t, "")
	target := filepath.Join(t.TempDir(), "dotfiles.json")
	must(t, os.WriteFile(target, []byte(`{}`), 0o600))
	must(t, os.Symlink(target, f.Path()))
	update(t, f, `{"requireToken":true}`)
	info, err := os.Lstat(f.Path())
	must(t, err)
	if info.Mode()&os.ModeSymlink == 0 || !New(target).RequireToken() {
		t.Error("the link was replaced, or its target not written")
	}
}

func TestAnUpdateThatWaitsGivesUpWithItsContext(t *testing.T) {
	f := newFile(t, "")
	f.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Update(ctx, []byte(`{}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// FuzzParse reads any file: no panic, and what parses survives an empty update
// with the same meaning.
func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add(`{"providerSettings":{"ollama":{"baseUrl":"http://x//"}}}`)
	for _, content := range broken {
		if len(content) < 1000 {
			f.Add(content)
		}
	}
	f.Fuzz(func(t *testing.T, content string) {
		d, err := parseDocument([]byte(content))
		if err != nil {
			return
		}
		s, problems := parse(d)
		for _, p := range problems {
			if p.Path == "" || p.Msg == "" {
				t.Errorf("a problem says nothing: %+v", p)
			}
		}
		for _, code := range Providers {
			for _, level := range Levels {
				args, err := s.EffortArgs(code, level)
				if _, msg := checkPairs(code, args); err == nil && msg != "" {
					t.Errorf("%s %s handed out %q: %s", code, level, args, msg)
				}
			}
		}
		tidied, err := tidy(d)
		if err != nil {
			t.Fatalf("tidy: %v", err)
		}
		encoded, err := tidied.encode()
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		again, err := parseDocument(encoded)
		if err != nil {
			t.Fatalf("own output is unreadable: %v", err)
		}
		if s2, _ := parse(again); s2.DefaultProvider != s.DefaultProvider || s2.Retention != s.Retention || s2.Ollama != s.Ollama || s2.RequireToken != s.RequireToken {
			t.Errorf("%+v became %+v", s, s2)
		}
	})
}

// FuzzMerge applies any patch to any document; the result parses.
func FuzzMerge(f *testing.F) {
	f.Add(`{"a":{"b":1}}`, `{"a":{"b":null,"c":{"d":null}},"e":[null]}`)
	f.Fuzz(func(t *testing.T, base, patch string) {
		b, err := parseDocument([]byte(base))
		if err != nil {
			return
		}
		p, err := parseDocument([]byte(patch))
		if err != nil {
			return
		}
		merged, err := b.merge(p)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := merged.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseDocument(encoded); err != nil {
			t.Fatalf("%s and %s gave %s: %v", base, patch, encoded, err)
		}
	})
}

func TestWhatAKilledWriterLeftIsRemovedWhereTheFileReallyIs(t *testing.T) {
	elsewhere := t.TempDir()
	real := filepath.Join(elsewhere, "real.json")
	path := filepath.Join(t.TempDir(), "settings.json")
	keep, theirs := filepath.Join(elsewhere, ".settings-mine"), filepath.Join(elsewhere, ".settings-mine.tmp")
	left := filepath.Join(elsewhere, ".settings-123.tmp")
	for _, name := range []string{real, keep, theirs, left} {
		if err := os.WriteFile(name, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(real, path); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	if err := New(path).RemoveLeftovers(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v; it should be gone", left, err)
	}
	for _, name := range []string{real, keep, theirs, path} {
		if _, err := os.Lstat(name); err != nil {
			t.Error(err)
		}
	}
	if err := New(filepath.Join(elsewhere, "missing.json")).RemoveLeftovers(); err != nil {
		t.Errorf("without a file: %v", err)
	}
}
