package main

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

// deadProcess is the number of a process that has ended.
func deadProcess(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.list=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestRuntimeFilesOfTheDeadAreRemoved(t *testing.T) {
	listening, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	closed, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	dead := deadProcess(t)
	for name, tt := range map[string]struct {
		pid   int
		addr  net.Addr
		stays bool
	}{
		"dead":                        {dead, closed.Addr(), false},
		"dead, another has its port":  {dead, listening.Addr(), false},
		"dead, another has its pid":   {os.Getpid(), closed.Addr(), false},
		"alive, its lock was removed": {os.Getpid(), listening.Addr(), true},
	} {
		home := t.TempDir()
		f := ipc.NewRuntimeFile(tt.addr)
		f.PID = tt.pid
		if err := f.Write(home); err != nil {
			t.Fatal(err)
		}
		if err := removeDeadRuntimeFiles(home); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, file := range []string{ipc.RuntimeFileName, ipc.AgentRuntimeFileName} {
			if _, err := os.Stat(filepath.Join(home, file)); (err == nil) != tt.stays {
				t.Errorf("%s: %s: %v", name, file, err)
			}
		}
	}
}

// watchedHome is a home whose lock this process holds and whose runtime files it has
// written and watches.
type watchedHome struct {
	*runtimeWatch
	told bytes.Buffer
}

func watchHome(t *testing.T, home string) *watchedHome {
	t.Helper()
	lock, err := acquireLock(t.Context(), home, lockPatience, never)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Release() })
	content := ipc.NewRuntimeFile(&net.TCPAddr{Port: 4321})
	content.Token, content.InstanceID = "token", "instance"
	if err := content.Write(home); err != nil {
		t.Fatal(err)
	}
	w := &watchedHome{}
	w.runtimeWatch = newRuntimeWatch(home, content, lock, zerolog.New(&w.told))
	return w
}

// lookAgain looks several times and returns what was logged, a line each.
func (w *watchedHome) lookAgain() (told []string) {
	w.told.Reset()
	for range 3 {
		w.look()
	}
	return strings.Split(strings.TrimSuffix(w.told.String(), "\n"), "\n")
}

func (w *watchedHome) wantQuiet(t *testing.T) {
	t.Helper()
	if told := w.lookAgain(); told[0] != "" {
		t.Errorf("it says %v", told)
	}
}

func (w *watchedHome) want(t *testing.T, level, text string) {
	t.Helper()
	told := w.lookAgain()
	if len(told) != 1 || !strings.Contains(told[0], `"level":"`+level+`"`) || !strings.Contains(told[0], text) {
		t.Errorf("it says %v; want one line of level %s with %q", told, level, text)
	}
}

func (w *watchedHome) wantWhole(t *testing.T) {
	t.Helper()
	for _, f := range w.files {
		if got, err := ipc.ReadRuntimeFileAt(f.path); err != nil || got != f.want {
			t.Errorf("%s holds %+v, %v", f.path, got, err)
		}
	}
}

func TestARuntimeFileThatSomebodyTouchedIsWrittenAgainOnce(t *testing.T) {
	for _, name := range []string{ipc.RuntimeFileName, ipc.AgentRuntimeFileName} {
		w := watchHome(t, t.TempDir())
		w.wantQuiet(t)
		path := filepath.Join(w.home, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		foreign := bytes.ReplaceAll(good, []byte("4321"), []byte("4322"))
		for _, change := range []func() error{
			func() error { return os.Remove(path) },
			func() error { return os.Truncate(path, 0) },
			func() error { return os.WriteFile(path, []byte("garbage"), fileMode) },
			func() error { return errors.Join(os.Remove(path), os.WriteFile(path, foreign, fileMode)) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			w.want(t, "warn", "is written again")
			w.wantWhole(t)
		}
		if err := errors.Join(os.Remove(path), os.WriteFile(path, good, fileMode)); err != nil {
			t.Fatal(err)
		}
		w.wantQuiet(t) // it is as good as the one that was there
	}
}

func TestNoRuntimeFileIsWrittenWhereAnotherDaemonMayServe(t *testing.T) {
	for name, replace := range map[string]func(lock string) error{
		"removed":  os.Remove,
		"replaced": func(lock string) error { return errors.Join(os.Remove(lock), os.WriteFile(lock, nil, fileMode)) },
	} {
		w := watchHome(t, t.TempDir())
		if err := replace(filepath.Join(w.home, lockFileName)); err != nil {
			t.Skip("a file in use cannot be removed here:", err)
		}
		w.wantQuiet(t)
		path := filepath.Join(w.home, ipc.RuntimeFileName)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		w.want(t, "error", "another daemon may serve")
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is there again: %v", name, err)
		}
	}
}

func TestAFolderInThePlaceOfARuntimeFileIsToldOfOnce(t *testing.T) {
	w := watchHome(t, t.TempDir())
	path := filepath.Join(w.home, ipc.RuntimeFileName)
	kept := filepath.Join(path, "kept")
	for range 2 {
		if err := errors.Join(os.Remove(path), os.MkdirAll(kept, folderMode)); err != nil {
			t.Fatal(err)
		}
		w.want(t, "error", "is a folder; move it away")
		if _, err := os.Stat(kept); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		w.want(t, "warn", "is written again")
		w.wantWhole(t)
	}
}

func TestAHomeThatIsGoneIsToldOfOnceAndNotMade(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(home, folderMode); err != nil {
		t.Fatal(err)
	}
	w := watchHome(t, home)
	if err := os.Rename(home, home+".away"); err != nil {
		t.Skip("a folder in use cannot be moved here:", err)
	}
	w.want(t, "error", "was removed or replaced")
	if _, err := os.Lstat(home); err == nil {
		t.Error("the home was made anew")
	}
	if err := os.Rename(home+".away", home); err != nil {
		t.Fatal(err)
	}
	w.wantQuiet(t)
}
