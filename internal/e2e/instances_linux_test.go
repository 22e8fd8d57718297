package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// launchUnder starts the daemon by a helper of the test binary that first takes
// something away from itself; see [confined].
func launchUnder(t *testing.T, home, what string) *daemon {
	t.Helper()
	command, err := helperCommand("confined", what, binary, "serve", "--home", home)
	if err != nil {
		t.Fatal(err)
	}
	return launchCommand(t, home, command)
}

// confined gives something up and becomes the program that the other arguments
// name: "flock=ERRNO" makes every file lock fail with that number, "root" makes
// root obey the modes of files.
func confined(args []string) int {
	runtime.LockOSThread() // it is this thread that becomes the program
	var err error
	if number, ok := strings.CutPrefix(args[0], "flock="); ok {
		errno, _ := strconv.Atoi(number)
		err = refuseLocks(uint32(errno))
	} else if os.Geteuid() == 0 {
		err = errors.Join(
			unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_DAC_OVERRIDE, 0, 0, 0),
			unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_DAC_READ_SEARCH, 0, 0, 0),
		)
	}
	if err == nil {
		err = syscall.Exec(args[1], args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "e2e: confined:", err)
	return 99
}

// TestStartOnAFileSystemWithoutLocks has the kernel refuse locks, as network file
// systems and broken disks do: the daemon says so and touches nothing.
func TestStartOnAFileSystemWithoutLocks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		errno syscall.Errno
		want  string
	}{
		{unix.ENOLCK, "the file system of $lock cannot lock files (no locks available), so two daemons could use the home folder at once; choose one on a local disk with --home DIR\n"},
		{unix.EOPNOTSUPP, "the file system of $lock cannot lock files (operation not supported), so two daemons could use the home folder at once; choose one on a local disk with --home DIR\n"},
		{unix.EIO, "the instance lock $lock cannot be taken (input/output error); look at the disk, or choose another home folder with --home DIR\n"},
	} {
		t.Run(unix.ErrnoName(tt.errno), func(t *testing.T) {
			t.Parallel()
			home := newHome(t)
			d := launchUnder(t, home, fmt.Sprintf("flock=%d", int(tt.errno)))
			d.wantRefusal(tt.want)
			wantUnused(t, home)
		})
	}
}

// wantRefusal checks that a start has failed with a sentence, in which $lock and
// $home stand for paths.
func (d *daemon) wantRefusal(want string) {
	d.t.Helper()
	want = strings.NewReplacer("$lock", filepath.Join(d.home, "core.lock"), "$home", d.home).Replace(want)
	if code := d.code(); code != 1 {
		d.t.Errorf("it left with %d, want 1", code)
	}
	if got := d.said(); got != want {
		d.t.Errorf("it said\n%s\nwant\n%s", got, want)
	}
}

// wantUnused checks that a start that failed has made nothing of a daemon's.
func wantUnused(t *testing.T, home string) {
	t.Helper()
	for _, name := range append([]string{"core.db", "workspaces", "logs/core.log"}, runtimeFiles...) {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}

// TestStartWithAnUnusableLockFile has something else stand where the lock is.
func TestStartWithAnUnusableLockFile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		make func(path, target string) error
		want string
	}{
		"a folder":        {func(path, _ string) error { return os.Mkdir(path, 0o700) }, "is a directory"},
		"a link":          {func(path, target string) error { return os.Symlink(target, path) }, "too many levels of symbolic links"},
		"a dangling link": {func(path, target string) error { return os.Symlink(target+"2", path) }, "too many levels of symbolic links"},
		"unreadable":      {func(path, _ string) error { return os.WriteFile(path, nil, 0) }, "permission denied"},
		"read-only":       {func(path, _ string) error { return os.WriteFile(path, nil, 0o400) }, "permission denied"},
		"a socket":        {func(path, _ string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) }, "no such device or address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := newHome(t)
			target := filepath.Join(filepath.Dir(home), "precious")
			if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tt.make(filepath.Join(home, "core.lock"), target); err != nil {
				t.Fatal(err)
			}
			d := launchUnder(t, home, "root")
			d.wantRefusal("the instance lock $lock cannot be opened (" + tt.want + "); move it away, then start again\n")
			wantUnused(t, home)
			if got, err := os.ReadFile(target); err != nil || string(got) != "precious" {
				t.Errorf("the file behind the link is %q, %v", got, err)
			}
			if _, err := os.Lstat(target + "2"); err == nil {
				t.Error("the file behind the dangling link was made")
			}
		})
	}
}

// TestStartIsNotHeldUpByWhatTheLockFileSays has a lock file that nobody holds name
// a process: one that is no more, and one of somebody else.
func TestStartIsNotHeldUpByWhatTheLockFileSays(t *testing.T) {
	t.Parallel()
	foreign := exec.Command(binary, "agent", "--scripted", "acp") // lives as long as its input
	input, err := foreign.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"a dead process":    fmt.Sprintln(deadPID(t)),
		"a foreign process": fmt.Sprintln(foreign.Process.Pid),
		"nonsense":          "-1\n",
		"a text":            strings.Repeat("not ours\n", 1000),
	} {
		home := newHome(t)
		lock := filepath.Join(home, "core.lock")
		if err := os.WriteFile(lock, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		d := start(t, home)
		d.pong()
		got, err := os.ReadFile(lock)
		if want := fmt.Sprintln(d.info.PID); err != nil || string(got) != want && name != "a text" || string(got) != content && name == "a text" {
			t.Errorf("%s: while a daemon serves, the file says %q, %v", name, clip(got), err)
		}
		if code, err := d.stop(); err != nil || code != 0 {
			t.Errorf("%s: it left with %d: %v", name, code, err)
		}
	}
	if isZombie(foreign.Process.Pid) {
		t.Error("the foreign process is gone")
	}
	_ = input.Close()
	if err := foreign.Wait(); err != nil {
		t.Errorf("the foreign process: %v", err)
	}
}

// deadPID is the number of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(binary, "version")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestALockFileRemovedUnderADaemonLetsNobodyIn removes the lock's file while a daemon
// serves: the database keeps a second one out, and nothing of the first is touched.
func TestALockFileRemovedUnderADaemonLetsNobodyIn(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t))
	kept := d.belongings()
	if err := os.Remove(filepath.Join(d.home, "core.lock")); err != nil {
		t.Fatal(err)
	}
	next := launch(t, d.home)
	next.wantRefusal("Another program has the database $home/core.db open. End it, then start again. (STORAGE_FAILED)\n")
	kept.untouched()
}

// TestStartInAHomeThatCannotBeUsed reads what a start says of homes that cannot be
// written, or are none.
func TestStartInAHomeThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		make func(home string) error
		want string
	}{
		"a file": {
			func(home string) error { return errors.Join(os.RemoveAll(home), os.WriteFile(home, nil, 0o600)) },
			"$home is not a folder; choose another one with --home DIR\n",
		},
		"below a file": {
			func(home string) error {
				return errors.Join(os.RemoveAll(filepath.Dir(home)), os.WriteFile(filepath.Dir(home), nil, 0o600))
			},
			"the folder $home cannot be made: mkdir $parent: not a directory; choose another home folder with --home DIR\n",
		},
		"not to be written": {
			func(home string) error { return os.Chmod(home, 0o500) },
			"the instance lock $lock cannot be opened (permission denied); choose another home folder with --home DIR\n",
		},
		"somebody else's": {
			func(home string) error { return os.Chown(home, 65534, 65534) },
			"the home folder $home belongs to user 65534, not to you (user 0); choose another one with --home DIR\n",
		},
		"a database that is a folder": {
			func(home string) error { return os.MkdirAll(filepath.Join(home, "core.db"), 0o600) },
			"$home/core.db is a folder and no database. Move it away and start again. (STORAGE_FAILED)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give its rights up and folders away")
			}
			t.Parallel()
			home := filepath.Join(t.TempDir(), "parent", "home")
			if err := errors.Join(os.MkdirAll(home, 0o700), tt.make(home)); err != nil {
				t.Fatal(err)
			}
			d := launchUnder(t, home, "root")
			d.wantRefusal(strings.ReplaceAll(tt.want, "$parent", filepath.Dir(home)))
		})
	}
}

// TestStartInAHomeThatIsMissing makes the home and all above it.
func TestStartInAHomeThatIsMissing(t *testing.T) {
	t.Parallel()
	home := filepath.Join(filepath.Dir(newHome(t)), "a", "b", "home")
	d := start(t, home)
	d.pong()
	info, err := os.Stat(home)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the home is %v, %v", info, err)
	}
}

// TestStartOnADiskThatTakesNothing starts on a read-only mount and on a full disk.
func TestStartOnADiskThatTakesNothing(t *testing.T) {
	if os.Getenv(mountedEnv) == "" {
		inMountNamespace(t)
		return
	}
	small := func(t *testing.T) string {
		home := newHome(t)
		mount(t, home, "size=1m")
		return home
	}
	readOnly := func(t *testing.T, home string) {
		if err := unix.Mount("", home, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("read-only and empty", func(t *testing.T) {
		home := small(t)
		readOnly(t, home)
		launch(t, home).wantRefusal("the instance lock $lock cannot be opened (read-only file system); choose another home folder with --home DIR\n")
	})
	t.Run("read-only with what a daemon left", func(t *testing.T) {
		home := small(t)
		writeSettings(t, home, nil)
		if code, err := start(t, home).stop(); err != nil || code != 0 {
			t.Fatalf("it left with %d: %v", code, err)
		}
		readOnly(t, home)
		launch(t, home).wantRefusal("the instance lock $lock cannot be opened (read-only file system); choose another home folder with --home DIR\n")
	})
	t.Run("full and empty", func(t *testing.T) {
		home := small(t)
		fill(t, filepath.Join(home, "filler"))
		launch(t, home).wantRefusal("The disk has no room for the database $home/core.db. Make some, then start again. (STORAGE_FULL)\n")
	})
	t.Run("full with what a daemon left", func(t *testing.T) {
		home := small(t)
		writeSettings(t, home, nil)
		if code, err := start(t, home).stop(); err != nil || code != 0 {
			t.Fatalf("it left with %d: %v", code, err)
		}
		fill(t, filepath.Join(home, "filler"))
		d := launch(t, home)
		want := "the runtime file cannot be written, so no client could find the daemon: write .*: no space left on device; see that " + home + " can be written\n"
		if code := d.code(); code != 1 || !regexp.MustCompile("^"+want+"$").MatchString(d.said()) {
			t.Errorf("it left with %d and said\n%s", code, d.said())
		}
		for _, name := range runtimeFiles {
			if left, err := filepath.Glob(filepath.Join(home, name+"*")); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
		}
	})
}
