package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestPrivateDirMakesTheWholeFolder(t *testing.T) {
	m, home := newManager(t)
	path, err := m.PrivateDir(home, threadA)
	must(t, err)
	if want := filepath.Join(home, ".pedelec-runtime", "threads", threadA); path != want {
		t.Errorf("path %q, want %q", path, want)
	}
	data, err := os.ReadFile(filepath.Join(home, ".pedelec-runtime", ".gitignore"))
	must(t, err)
	if string(data) != "*\n" {
		t.Errorf(".gitignore holds %q", data)
	}
	if info, err := os.Stat(filepath.Join(home, ".pedelec-runtime", "assets")); err != nil || !info.IsDir() {
		t.Errorf("assets: %v %v", info, err)
	}
	again, err := m.PrivateDir(home, threadA)
	must(t, err)
	other, err := m.PrivateDir(home, threadB)
	must(t, err)
	if again != path || other == path {
		t.Errorf("again %q, other thread %q", again, other)
	}
}

func TestPrivateDirRefusesWhatIsNoRealDirectory(t *testing.T) {
	for _, place := range []string{".pedelec-runtime", ".pedelec-runtime/assets", ".pedelec-runtime/threads", ".pedelec-runtime/threads/" + threadA} {
		for _, kind := range []string{"file", "link", "dangling link"} {
			t.Run(place+" is a "+kind, func(t *testing.T) {
				m, home := newManager(t)
				workspace, outside := filepath.Join(home, "ws"), filepath.Join(home, "outside")
				at := filepath.Join(workspace, place)
				must(t, os.MkdirAll(filepath.Dir(at), 0o700))
				must(t, os.Mkdir(outside, 0o700))
				switch kind {
				case "file":
					must(t, os.WriteFile(at, []byte("mine"), 0o600))
				case "link":
					must(t, os.Symlink(outside, at))
				case "dangling link":
					must(t, os.Symlink(filepath.Join(home, "nowhere"), at))
				}
				if _, err := m.PrivateDir(workspace, threadA); !errors.Is(err, ErrNotDirectory) {
					t.Errorf("error %v, want one that says it is no real directory", err)
				}
				if err := m.Reopen(workspace); (err == nil) != strings.Contains(place, "threads") {
					t.Errorf("Reopen said %v", err)
				}
				if entries, _ := os.ReadDir(outside); len(entries) != 0 || exists(t, filepath.Join(home, "nowhere")) {
					t.Error("something was written through the link")
				}
			})
		}
	}
}

func TestPrivateDirLeavesAChangedGitignoreAlone(t *testing.T) {
	m, home := newManager(t)
	must(t, os.Mkdir(filepath.Join(home, privateName), 0o700))
	ignore := filepath.Join(home, privateName, gitignoreName)
	must(t, os.Symlink(filepath.Join(home, "nowhere"), ignore))
	_, err := m.PrivateDir(home, threadA)
	must(t, err)
	if exists(t, filepath.Join(home, "nowhere")) {
		t.Error("the link was followed")
	}
}

// TestAHelperFileThatACrashLeftEmptyIsWritten: an empty .gitignore once stayed empty,
// so that the private folder showed up in the project's repository.
func TestAHelperFileThatACrashLeftEmptyIsWritten(t *testing.T) {
	m, home := newManager(t)
	ignore, mark := filepath.Join(home, privateName, gitignoreName), filepath.Join(home, "p", markerName)
	for _, path := range []string{ignore, mark} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
	}
	_, err := m.PrivateDir(home, threadA)
	must(t, err)
	_, _, _, err = m.CreateCustom(filepath.Dir(mark), "1", "https://app.example")
	must(t, err)
	for path, want := range map[string]string{ignore: gitignore, mark: "https://app.example"} {
		b, err := os.ReadFile(path)
		must(t, err)
		if !strings.Contains(string(b), want) {
			t.Errorf("%s holds %q", path, b)
		}
		left, err := filepath.Glob(path + ".*")
		if must(t, err); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestPrivateDirInAMissingWorkspace(t *testing.T) {
	m, home := newManager(t)
	if _, err := m.PrivateDir(filepath.Join(home, "gone"), threadA); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if exists(t, filepath.Join(home, "gone")) {
		t.Error("the workspace was made")
	}
}

func TestPrivateDirForManyThreadsAtOnce(t *testing.T) {
	m, home := newManager(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := m.PrivateDir(home, threadA); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// While another goroutine keeps swapping the private folder with a link to the
// user's sources, each of many calls either fails or works inside the real
// folder; nothing ever appears in the sources.
func TestPrivateDirNeverLeavesTheWorkspaceUnderASwapRace(t *testing.T) {
	const rounds = 10_000
	m, home := newManager(t)
	workspace, sources := filepath.Join(home, "ws"), filepath.Join(home, "ws", "src")
	must(t, os.MkdirAll(sources, 0o700))
	private, aside, link := filepath.Join(workspace, privateName), filepath.Join(workspace, "aside"), filepath.Join(workspace, "link")
	must(t, os.Mkdir(private, 0o700))
	must(t, os.Symlink(sources, link))

	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// Errors are part of the game: the other side makes folders too.
			_ = os.Rename(private, aside)
			_ = os.Rename(link, private)
			_ = os.Rename(private, link)
			if os.Rename(aside, private) != nil {
				_ = os.RemoveAll(aside)
			}
		}
	})
	worked, refused := 0, 0
	for range rounds {
		if _, err := m.PrivateDir(workspace, threadA); err != nil {
			refused++
		} else {
			worked++
		}
	}
	close(stop)
	swapper.Wait()
	entries, err := os.ReadDir(sources)
	must(t, err)
	if len(entries) != 0 {
		t.Errorf("%d of the writes landed in the sources: %v", len(entries), entries)
	}
	t.Logf("%d calls worked, %d were refused", worked, refused)
}

func TestReopen(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, home string) string
		want    string // part of the error; "" = fine
	}{
		{"a good workspace", func(t *testing.T, home string) string { return home }, ""},
		{"gone", func(t *testing.T, home string) string { return filepath.Join(home, "gone") }, "gone"},
		{"a file now", func(t *testing.T, home string) string {
			must(t, os.WriteFile(filepath.Join(home, "f"), nil, 0o600))
			return filepath.Join(home, "f")
		}, "no longer a directory"},
		{"a link now", func(t *testing.T, home string) string {
			must(t, os.Mkdir(filepath.Join(home, "real"), 0o700))
			must(t, os.Symlink(filepath.Join(home, "real"), filepath.Join(home, "ws")))
			return filepath.Join(home, "ws")
		}, "elsewhere"},
		{"a parent is a link now", func(t *testing.T, home string) string {
			must(t, os.MkdirAll(filepath.Join(home, "real", "ws"), 0o700))
			must(t, os.Symlink(filepath.Join(home, "real"), filepath.Join(home, "up")))
			return filepath.Join(home, "up", "ws")
		}, "elsewhere"},
		{"private folder occupied", func(t *testing.T, home string) string {
			must(t, os.WriteFile(filepath.Join(home, privateName), nil, 0o600))
			return home
		}, "not a real directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, home := newManager(t)
			err := m.Reopen(c.prepare(t, home))
			if c.want == "" {
				must(t, err)
				entries, err := os.ReadDir(filepath.Join(home, privateName))
				must(t, err)
				if len(entries) != 2 {
					t.Errorf("the private folder holds %v, want assets and .gitignore only", entries)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
