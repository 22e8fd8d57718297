package settings

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// broken are contents that are no settings at all.
var broken = map[string]string{
	"empty":          "\n",
	"cut short":      `{"requireToken": tr`,
	"a list":         `[]`,
	"a number":       `7`,
	"two objects":    `{} {}`,
	"duplicate name": `{"requireToken":true,"requireToken":false}`,
	"invalid UTF-8":  "{\"a\":\"\xff\"}",
	"a comment":      "// hello\n{}",
	"too large":      `{"a":"` + strings.Repeat("x", MaxFileBytes) + `"}`,
}

func TestABrokenFileKeepsTheLastGoodSettings(t *testing.T) {
	for name, content := range broken {
		t.Run(name, func(t *testing.T) {
			f := newFile(t, `{"requireToken":true,"defaultProvider":"codex"}`)
			if !f.RequireToken() {
				t.Fatal("the good file was not read")
			}
			put(t, f, content)
			if !f.RequireToken() {
				t.Error("the last good settings are gone")
			}
			_, err := f.DefaultProvider()
			wantCode(t, err, fault.SettingsReadFailed, "path", "error")
			_, err = f.Update(t.Context(), []byte(`{"requireToken":false}`))
			wantCode(t, err, fault.SettingsReadFailed, "path", "error")
			if p := f.Problems(); len(p) != 1 || p[0].Path != "" {
				t.Errorf("problems %v", p)
			}
			put(t, f, `{"defaultProvider":"claude"}`)
			if code, err := f.DefaultProvider(); code != "claude" || err != nil || f.RequireToken() {
				t.Errorf("the mended file gave %q %v", code, err)
			}
		})
	}
}

func TestABrokenFileFromTheStartMeansDefaults(t *testing.T) {
	for name, content := range broken {
		t.Run(name, func(t *testing.T) {
			f := newFile(t, content)
			if f.RequireToken() || f.Current().Retention.JournalEvents != DefaultJournalEvents {
				t.Error("not the defaults")
			}
			if args, err := f.EffortArgs("codex", "high"); err != nil || len(args) != 0 {
				t.Errorf("%v %v", args, err)
			}
		})
	}
}

func TestWhatIsNoRegularFileIsUnreadable(t *testing.T) {
	f := New(t.TempDir())
	_, err := f.DefaultProvider()
	wantCode(t, err, fault.SettingsReadFailed, "path", "error")
}

func TestChangesAreSeenAtOnce(t *testing.T) {
	f := newFile(t, `{"defaultProvider":"codex"}`)
	// Same length, same file, most likely the same tick of its clock.
	for _, code := range []string{"codex", "claud", "cursr"} {
		put(t, f, `{"defaultProvider":"`+code+`"}`)
		_, _ = f.DefaultProvider()
		if p := f.Problems(); (len(p) == 0) != (code == "codex") {
			t.Errorf("%s: problems %v", code, p)
		}
	}
	must(t, os.Remove(f.Path()))
	if code, err := f.DefaultProvider(); code != "" || err != nil {
		t.Errorf("after removal %q %v", code, err)
	}
}

func TestAnUnchangedFileIsNotReadAgain(t *testing.T) {
	f := newFile(t, `{"requireToken":true}`)
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(f.Path(), old, old))
	first := f.load()
	if !first.settled || f.load() != first {
		t.Error("an old, unchanged file was read twice")
	}
	older := old.Add(-time.Hour)
	put(t, f, `{"requireToken":null}`)
	must(t, os.Chtimes(f.Path(), older, older))
	if f.RequireToken() {
		t.Error("a file with an older stamp was not read")
	}
}

func TestTheFilesModeIsRepaired(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	f := newFile(t, `{}`)
	must(t, os.Chmod(f.Path(), 0o644))
	f.Current()
	info, err := os.Stat(f.Path())
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode().Perm())
	}
}

func TestOnLoadHearsOfEachNewContentOnce(t *testing.T) {
	f := newFile(t, `{"requireToken":true}`)
	var heard []string
	f.OnLoad = func(s Settings, p []Problem, err error) {
		switch {
		case err != nil:
			heard = append(heard, "unreadable")
		case len(p) > 0:
			heard = append(heard, p[0].Path)
		case s.RequireToken:
			heard = append(heard, "token")
		default:
			heard = append(heard, "plain")
		}
	}
	for _, content := range []string{`{"requireToken":true}`, `{`, `{"defaultProvider":1}`, `{}`} {
		put(t, f, content)
		f.Current()
		f.Current()
	}
	if got := strings.Join(heard, " "); got != "token unreadable defaultProvider plain" {
		t.Errorf("heard %q", got)
	}
}

func TestReadersAndWritersAtOnceSeeWholeSettings(t *testing.T) {
	f := newFile(t, `{"defaultProvider":"codex"}`)
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if code, err := f.DefaultProvider(); err != nil || code != "codex" && code != "claude" {
					t.Errorf("read %q %v", code, err)
					return
				}
			}
		})
	}
	for _, code := range []string{"codex", "claude"} {
		writers.Go(func() {
			for range 50 {
				if _, err := f.Update(t.Context(), []byte(`{"defaultProvider":"`+code+`"}`)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	entries, err := os.ReadDir(filepath.Dir(f.Path()))
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func BenchmarkCurrent(b *testing.B) {
	f := newFile(b, full)
	old := time.Now().Add(-time.Hour)
	must(b, os.Chtimes(f.Path(), old, old))
	b.Run("settings", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.Current()
		}
	})
	b.Run("baseline-stat", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = os.Stat(f.Path())
		}
	})
}

func TestTheAnswerOnTheTokenMayBeAsOldAsItsAge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	f := New(path)
	f.GuardAge = time.Hour
	if f.RequireToken() {
		t.Fatal("required without a file")
	}
	if err := os.WriteFile(path, []byte(`{"requireToken":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if f.RequireToken() {
		t.Error("it looked at the file before its time")
	}
	f.Current() // somebody noticed the new content
	if !f.RequireToken() {
		t.Error("a content that is known is not heeded")
	}
}

func TestALinkToNowhereIsNoAbsentFile(t *testing.T) {
	f := newFile(t, "")
	target := filepath.Join(t.TempDir(), "unmounted", "dotfiles.json")
	must(t, os.Symlink(target, f.Path()))
	if problems := f.Problems(); len(problems) != 1 || !strings.Contains(problems[0].Msg, target) {
		t.Errorf("problems %v", problems)
	}
	_, err := f.DefaultProvider()
	wantCode(t, err, fault.SettingsReadFailed, "path", "error")
	_, err = f.Update(t.Context(), []byte(`{}`))
	wantCode(t, err, fault.SettingsReadFailed, "path", "error")
	if there, err := os.Readlink(f.Path()); err != nil || there != target {
		t.Errorf("the link became %q (%v)", there, err)
	}
	must(t, os.Mkdir(filepath.Dir(target), 0o700))
	must(t, os.WriteFile(target, []byte(`{"requireToken":true}`), 0o600))
	if !f.RequireToken() {
		t.Error("the file is there again and not read")
	}
}
