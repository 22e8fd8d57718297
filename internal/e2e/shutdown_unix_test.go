//go:build unix

package e2e

import (
	"bufio"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/store"
)

// leaveLimit is how long a clean shutdown may take.
const leaveLimit = 10 * time.Second

func (d *daemon) signal(s os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// awaitSaid waits until the process has printed something.
func (d *daemon) awaitSaid(text string) {
	d.t.Helper()
	err := waitFor(startLimit, "the daemon to say "+text, func() (bool, error) { return strings.Contains(d.said(), text), nil })
	if err != nil {
		d.t.Fatal(err)
	}
}

// nothingLeft checks what a clean end leaves of a run: neither runtime files nor
// temporary workspaces nor processes, and a database that is closed.
func nothingLeft(t testing.TB, home string) {
	t.Helper()
	for _, name := range runtimeFiles {
		if left, err := filepath.Glob(filepath.Join(home, name+"*")); err != nil || len(left) > 0 {
			t.Errorf("there is %v, %v", left, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(home, "workspaces")); !errors.Is(err, fs.ErrNotExist) && (err != nil || len(left) > 0) {
		t.Errorf("temporary workspaces are left: %v, %v", left, err)
	}
	if left := agents(home); len(left) > 0 {
		t.Errorf("agents are left: %v", left)
	}
	path := filepath.Join(home, "core.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return
	}
	s := store.New(path)
	s.InstanceID = "test"
	if err := s.Open(); err != nil {
		t.Error(err)
		return
	}
	if s.WasUnclean() {
		t.Error("the database was not closed")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestASignalInAPauseOfTheStart tells a daemon to leave at each moment of its start
// that has a name.
func TestASignalInAPauseOfTheStart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		point  string
		inside string // file that is there in the pause; "" = it is as good before
	}{
		{"store.open.before", ""},
		{"store.create.before", "core.db.new"},
		{"store.open.dirty", "core.db"},
		{"ipc.runtimefile.rename", "agent-runtime.json.tmp*"},
	} {
		t.Run(tt.point, func(t *testing.T) {
			t.Parallel()
			home := newHome(t)
			d := launch(t, home, "PEDELEC_FAILPOINTS="+tt.point+"=sleep:500ms")
			d.awaitSaid("FAILPOINTS ARE ARMED")
			if tt.inside != "" {
				err := waitFor(startLimit, tt.inside, func() (bool, error) {
					found, err := filepath.Glob(filepath.Join(home, tt.inside))
					return len(found) > 0, err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			d.signal(syscall.SIGTERM)
			if code := d.code(); code != 0 {
				t.Errorf("it left with %d", code)
			}
			if !strings.Contains(d.said(), "leaving") {
				t.Error("it did not say that it leaves")
			}
			nothingLeft(t, home)
			start(t, home).pong()
		})
	}
}

// latestSignal is when a start is over, on a machine that is not too busy.
const latestSignal = 80 * time.Millisecond

// TestASignalAtARandomMomentOfTheStart tells daemons to leave while they start: a
// process that has begun to be a daemon leaves as cleanly as later.
func TestASignalAtARandomMomentOfTheStart(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	before := 0
	starts := 4 * *startRounds
	for range starts {
		d := launch(t, home)
		<-time.After(rand.N(latestSignal)) // the moment is what the test is about
		d.signal(syscall.SIGTERM)
		switch code := d.code(); {
		case code == 0:
		case killedBy(d, syscall.SIGTERM) && d.said() == "":
			before++ // the program had not begun
		default:
			t.Errorf("it left with %v and said\n%s", d.cmd.ProcessState, d.said())
		}
		nothingLeft(t, home)
	}
	t.Logf("%d of %d had not begun when the signal came", before, starts)
	start(t, home).pong()
}

func killedBy(d *daemon, s syscall.Signal) bool {
	status, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == s
}

// TestASignalToANewcomerThatWaits tells a start to leave that waits for a daemon
// which is stuck.
func TestASignalToANewcomerThatWaits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell which files a process has open")
	}
	t.Parallel()
	d := start(t, newHome(t))
	kept := d.belongings()
	d.signal(syscall.SIGSTOP)
	next := launch(t, d.home)
	err := waitFor(startLimit, "the newcomer to ask for the lock", func() (bool, error) { return holds(next.cmd.Process.Pid, "core.lock"), nil })
	if err != nil {
		t.Fatal(err)
	}
	next.signal(syscall.SIGTERM)
	if code := next.code(); code != 0 || next.said() != "" {
		t.Errorf("it left with %d and said\n%s", code, next.said())
	}
	d.signal(syscall.SIGCONT)
	kept.untouched()
}

// TestASecondSignalLeavesAtOnce tells a daemon twice whose agents ignore it; the next
// start ends them.
func TestASecondSignalLeavesAtOnce(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	d := start(t, home)
	c := d.dial()
	for range 3 {
		p := newPage(t, d, nil)
		p.send("ignore-term ; grandchild ; stream 1 ; hang-hard")
		p.await("assistant_delta")
	}
	left := agents(home)
	if len(left) == 0 {
		t.Skip("the system does not tell which processes are agents")
	}
	d.signal(syscall.SIGTERM)
	d.awaitSaid("leaving")
	began := time.Now()
	d.signal(syscall.SIGTERM)
	if code := d.code(); code != 1 || !strings.Contains(d.said(), "left at once, since it was told twice; the next start puts things in order\n") {
		t.Errorf("it left with %d and said\n%s", code, d.said())
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	c.Close()
	next := start(t, home)
	err := waitFor(orphanLimit, "the agents to be gone", func() (bool, error) {
		now := agents(home)
		return !slices.ContainsFunc(left, func(pid int) bool { return slices.Contains(now, pid) }), nil
	})
	if err != nil {
		t.Errorf("%v: %v", err, left)
	}
	next.pong()
}

// TestNohupKeepsTheDaemonFromHangingUp starts the daemon with hang-ups ignored, as
// nohup does.
func TestNohupKeepsTheDaemonFromHangingUp(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	d := launchCommand(t, home, []string{"/bin/sh", "-c", `trap "" HUP; exec "$0" "$@"`, binary, "serve", "--home", home})
	if err := d.await(); err != nil {
		t.Fatal(err)
	}
	d.signal(syscall.SIGHUP)
	d.signal(syscall.SIGHUP)
	d.pong()
	if code, err := d.stop(); err != nil || code != 0 {
		t.Errorf("it left with %d: %v", code, err)
	}
}

// TestTheDaemonOutlivesWhoeverReadsItsLog closes the pipe into which the daemon
// prints: it goes on and leaves cleanly.
func TestTheDaemonOutlivesWhoeverReadsItsLog(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, home: home, log: filepath.Join(home, "logs", "core.log"), exited: make(chan struct{})}
	d.cmd = exec.Command(binary, "serve", "--home", home, "--log-level", "debug")
	d.cmd.Env = cleanEnv()
	d.cmd.Stderr = w
	if err := errors.Join(d.cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.exitErr = d.cmd.Wait()
		close(d.exited)
	}()
	t.Cleanup(d.cleanUp)
	if err := d.await(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	p := newPage(t, d, nil)
	p.says(p.send("echo still here")) // which is logged
	d.pong()
	if code, err := d.stop(); err != nil || code != 0 {
		t.Errorf("it left with %d: %v", code, err)
	}
	nothingLeft(t, home)
}
