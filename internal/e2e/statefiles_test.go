//go:build unix

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"
)

// damage is what may have happened to a file when the daemon finds it. do gets the
// content that the file had, and leaves what it pointed to alone if it is a link.
type damage struct {
	name string
	do   func(path string, content []byte) error
}

var damages = []damage{
	{"truncated", func(path string, _ []byte) error { return replaceFile(path, nil) }},
	{"cut to half", func(path string, content []byte) error { return replaceFile(path, content[:len(content)/2]) }},
	{"random bytes", func(path string, content []byte) error { return replaceFile(path, noise(len(content))) }},
	{"a folder", func(path string, _ []byte) error {
		return errors.Join(os.Remove(path), os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "keep"), []byte(keepsake), 0o600))
	}},
	{"a link to nowhere", func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Symlink(nowhere, path)) }},
	{"unreadable", func(path string, _ []byte) error { return os.Chmod(path, 0) }},
}

const (
	keepsake = "somebody's"
	nowhere  = "/nowhere/at/all"
)

func replaceFile(path string, content []byte) error {
	return errors.Join(os.Remove(path), os.WriteFile(path, content, 0o600))
}

// noise is bytes that mean nothing, the same in each run.
func noise(n int) []byte {
	b := make([]byte, max(n, 100))
	_, _ = rand.NewChaCha8([32]byte{3}).Read(b)
	return b
}

// A stateFile says what may be otherwise with a file of the home than with one that
// nobody has thought of: that must be kept as it is found, told of, and is served
// without.
type stateFile struct {
	madeAnew bool     // each start writes it anew, so what it held need not be kept
	untold   []string // damages that nobody can know of, or that do no harm
	refused  []string // damages with which the daemon does not start, and says why
	corrects bool     // agents run only once the user has corrected it
}

var stateFiles = map[string]stateFile{
	"core.db":            {refused: []string{"a folder", "a link to nowhere"}},
	"core.lock":          {madeAnew: true, untold: []string{"truncated", "cut to half", "random bytes", "unreadable"}, refused: lockRefused()},
	"runtime.json":       {madeAnew: true, untold: []string{"truncated", "cut to half", "random bytes", "a link to nowhere"}},
	"agent-runtime.json": {madeAnew: true, untold: []string{"truncated", "cut to half", "random bytes", "a link to nowhere"}},
	"bin/pedelec-cli":    {madeAnew: true, untold: []string{"truncated", "cut to half", "random bytes", "a link to nowhere"}},
	"logs/core.log":      {untold: []string{"truncated", "cut to half", "random bytes"}},
	"settings.json":      {corrects: true},
}

// lockRefused is with what in its place the lock cannot be taken. Modes mean nothing
// to root.
func lockRefused() []string {
	refused := []string{"a folder", "a link to nowhere"}
	if os.Geteuid() != 0 {
		refused = append(refused, "unreadable")
	}
	return refused
}

// TestEachDamagedStateFileIsToldOfAndKept damages each file that a working home
// holds, in each way: the daemon starts and serves, or says why it does not, and
// nothing that was there is lost.
func TestEachDamagedStateFileIsToldOfAndKept(t *testing.T) {
	t.Parallel()
	template := workingHome(t)
	names := filesOf(t, template)
	for name := range stateFiles {
		if !slices.Contains(names, name) {
			t.Errorf("a working home has no %s; there are %v", name, names)
		}
	}
	for _, name := range names {
		isLink := isSymlink(filepath.Join(template, name))
		for _, damage := range damages {
			if isLink && damage.name == "unreadable" {
				continue // that of what it leads to is not ours
			}
			t.Run(name+" is "+damage.name, func(t *testing.T) {
				t.Parallel()
				damagedStart(t, copyHome(t, template), name, damage)
			})
		}
	}
}

// damagedStart damages a file of a home and starts a daemon on it.
func damagedStart(t *testing.T, home, name string, damage damage) {
	path := filepath.Join(home, name)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := damage.do(path, content); err != nil {
		t.Fatal(err)
	}
	found := thingAt(t, path)
	file := stateFiles[name]
	told := ""
	if damage.name == "unreadable" {
		told = doctor(home) // the start repairs it
	}
	d := launch(t, home)
	err = d.awaitAmid()
	told += doctor(home)
	if slices.Contains(file.refused, damage.name) {
		if err == nil {
			t.Fatal("it started")
		}
		<-d.exited
		if code := d.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(d.logTail(), path) {
			t.Errorf("it left with %d and said: %s", code, d.logTail())
		}
		if !strings.Contains(told, path) {
			t.Errorf("doctor does not tell of it: %s", told)
		}
		if now := thingAt(t, path); !slices.Equal(now, found) {
			t.Errorf("%q became %q", clip(found), clip(now))
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(file.untold, damage.name) {
		if !strings.Contains(d.logTail(), path) {
			t.Error("the log does not tell of it")
		}
		if !strings.Contains(told, path) {
			t.Errorf("doctor does not tell of it: %s", told)
		}
	}
	inUse := damage.name == "unreadable"
	if (!file.madeAnew || damage.name == "a folder") && !inUse && !keeps(t, home, found) {
		t.Errorf("%q is nowhere any more", clip(found))
	}
	if file.corrects && !inUse {
		newThread(t, d.dial())
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		writeSettings(t, home, nil)
	}
	if err := oneTurn(d.dial()); err != nil {
		t.Errorf("a turn: %v", err)
	}
}

// TestNothingWaitsForAPipeInThePlaceOfAStateFile puts a pipe that nobody writes to
// where each file of a working home was. Opening one waits for somebody at its other
// end: starts, and commands that only look, once hung.
func TestNothingWaitsForAPipeInThePlaceOfAStateFile(t *testing.T) {
	t.Parallel()
	template := workingHome(t)
	for name := range stateFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := copyHome(t, template)
			path := filepath.Join(home, name)
			if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
				t.Fatal(err)
			}
			look(t, home)
			d := launch(t, home)
			err := d.awaitAmid()
			if name == "core.lock" {
				if code := d.code(); code != 1 || !strings.Contains(d.logTail(), "move it away, then start again") {
					t.Errorf("it left with %d and said: %s", code, d.logTail())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			look(t, home)
			d.pong()
		})
	}
}

// look runs the commands that read a home's files; each ends, whatever it finds.
func look(t *testing.T, home string) {
	t.Helper()
	for _, command := range []string{"doctor", "status", "logs"} {
		ctx, stop := context.WithTimeout(t.Context(), startLimit)
		_ = exec.CommandContext(ctx, binary, command, "--home", home).Run() // it may well be discontent
		if ctx.Err() != nil {
			t.Errorf("%s does not end", command)
		}
		stop()
	}
}

// awaitAmid is await where runtime.json may be anything before the daemon writes it.
func (d *daemon) awaitAmid() error {
	return waitFor(startLimit, "the daemon to listen", func() (bool, error) {
		select {
		case <-d.exited:
			return false, fmt.Errorf("the daemon left at its start: %v", d.exitErr)
		default:
		}
		path := filepath.Join(d.home, "runtime.json")
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return false, nil
		}
		b, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(b, &d.info) != nil {
			return false, nil
		}
		return d.info.PID == d.cmd.Process.Pid, nil
	})
}

// doctor returns what the doctor is not content with.
func doctor(home string) string {
	out, _ := exec.Command(binary, "doctor", "--home", home).CombinedOutput() // its status says how bad it is
	var bad []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "✓") {
			bad = append(bad, line)
		}
	}
	return strings.Join(bad, "")
}

// thingAt returns what stands at a path in a form that can be found again.
func thingAt(t *testing.T, path string) []byte {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case info.IsDir():
		return []byte(keepsake)
	case info.Mode()&fs.ModeSymlink != 0:
		return []byte(nowhere)
	}
	if info.Mode().Perm() == 0 { // as the daemon's user may do, too
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(path, 0)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// keeps reports whether something is still below a home. What is longer now, as a
// log or a database in use, begins with it.
func keeps(t *testing.T, home string, found []byte) (kept bool) {
	t.Helper()
	if len(found) == 0 {
		return true
	}
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || kept {
			return err
		}
		if target, err := os.Readlink(path); err == nil {
			kept = target == string(found)
			return nil
		}
		b, err := os.ReadFile(path)
		kept = bytes.HasPrefix(b, found)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// filesOf lists the files of a home, but for what temporary workspaces hold: a start
// removes those.
func filesOf(t *testing.T, home string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(home, path)
		if name == "workspaces" {
			return fs.SkipDir
		}
		if !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func isSymlink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// workingHome makes a home as some work and a crash leave it.
func workingHome(t *testing.T) string {
	t.Helper()
	home := newHome(t)
	d := start(t, home)
	c := d.operator()
	for range 3 {
		if err := oneTurn(c); err != nil {
			t.Fatal(err)
		}
	}
	d.kill()
	cutToUse(t, filepath.Join(home, "core.db"))
	return home
}

// cutToUse cuts a database to the pages that it has in use, so that half of it is
// half of them.
func cutToUse(t *testing.T, path string) {
	t.Helper()
	var used int64
	inDatabase(t, path, func(tx *bolt.Tx) error {
		used = tx.Size()
		return nil
	})
	if err := os.Truncate(path, used); err != nil {
		t.Fatal(err)
	}
}

// inDatabase runs a transaction in the database of a daemon that does not run.
func inDatabase(t *testing.T, path string, do func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err == nil {
		err = errors.Join(db.Update(do), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// copyHome copies a home for one test.
func copyHome(t *testing.T, template string) string {
	t.Helper()
	home := newHome(t)
	for _, name := range filesOf(t, template) {
		from, to := filepath.Join(template, name), filepath.Join(home, name)
		err := os.MkdirAll(filepath.Dir(to), 0o700)
		if target, linkErr := os.Readlink(from); linkErr == nil {
			err = errors.Join(err, os.Symlink(target, to))
		} else if name != "settings.json" { // its agent has a state of its own there
			b, readErr := os.ReadFile(from)
			err = errors.Join(err, readErr, os.WriteFile(to, b, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// TestANewerDatabaseIsRefused starts the program on a database of a schema that it
// does not know: it leaves with a sentence and changes not a byte.
func TestANewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	home := workingHome(t)
	path := filepath.Join(home, "core.db")
	inDatabase(t, path, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte{0, 0, 0, 99})
	})
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := launch(t, home)
	if d.await() == nil {
		t.Fatal("it started")
	}
	<-d.exited
	said := d.logTail()
	if code := d.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said, "has schema 99") || !strings.Contains(said, "newer version of the program") {
		t.Errorf("it left with %d and said: %s", code, said)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the database was changed")
	}
	if aside, err := filepath.Glob(path + ".*"); err != nil || len(aside) > 0 {
		t.Errorf("there is %v besides: %v", aside, err)
	}
}

// TestAStartThatFailsLeavesNoWayToADeadDaemon starts the program where a daemon was
// killed and the database cannot be opened: clients once looked for the dead one where
// its runtime files led them.
func TestAStartThatFailsLeavesNoWayToADeadDaemon(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	start(t, home).kill()
	path := filepath.Join(home, "core.db")
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	d := launch(t, home)
	want := path + " is a folder and no database. Move it away and start again. (STORAGE_FAILED)\n"
	if code := d.code(); code != 1 || d.said() != want {
		t.Errorf("it left with %d and said\n%s\nwant\n%s", code, d.said(), want)
	}
	for _, name := range runtimeFiles {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}
