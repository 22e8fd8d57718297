package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Shape of the load while a disk fills up.
const (
	loadAcks     = 60     // commands that are acknowledged before, and after there is room again
	loadRefusals = 100    // commands that the full disk refuses
	mostLogBytes = 10_000 // of warnings and errors that all of them may cause together, uploads included
)

// fullDisk is a daemon under the load of the crash suite while some disk fills up.
type fullDisk struct {
	*crash
	small string // the folder that the small disk is mounted on
	d     *daemon
	load  sync.WaitGroup
	life  *life
}

// onSmallDisk mounts 4 MiB on a folder, given the home and the folder of the
// workspaces, and starts a daemon and its load. It is for the process that has a
// mount namespace of its own.
func onSmallDisk(t *testing.T, folder func(home, work string) string) *fullDisk {
	t.Helper()
	f := &fullDisk{crash: newCrash(t)}
	f.small = folder(f.home, f.work)
	if err := os.MkdirAll(f.small, 0o700); err != nil {
		t.Fatal(err)
	}
	mount(t, f.small, diskSize)
	writeSettings(t, f.home, object{"allowedOrigins": []string{crashOrigin}})
	f.d = start(t, f.home, "PEDELEC_DURATIONS=retry=50ms")
	f.ask()
	return f
}

// ask puts the clients' load on the daemon.
func (f *fullDisk) ask() {
	f.life = newLife(f.d.info)
	for _, cl := range f.clients {
		f.load.Go(func() { cl.run(f.life) })
	}
}

// hush stops the load; the daemon goes on.
func (f *fullDisk) hush() {
	f.Helper()
	f.life.end()
	f.load.Wait()
	f.lies("under load")
}

func (f *fullDisk) filler() string { return filepath.Join(f.small, "filler") }

// acknowledged waits until so many more commands were acknowledged.
func (f *fullDisk) acknowledged(n int64) {
	f.Helper()
	until := f.tally.acks.Load() + n
	f.wait(fmt.Sprintf("%d acknowledged commands", n), func() bool { return f.tally.acks.Load() >= until })
}

func (f *fullDisk) wait(what string, done func() bool) {
	f.Helper()
	if err := waitFor(patience, what, func() (bool, error) {
		select {
		case <-f.d.exited:
			return false, fmt.Errorf("the daemon left: %v", f.d.exitErr)
		default:
		}
		for _, cl := range f.clients {
			if err := cl.lie(); err != nil {
				return false, err
			}
		}
		return done(), nil
	}); err != nil {
		f.Fatal(err)
	}
}

var requestsMetric = regexp.MustCompile(`(?m)^pedelec_ipc_requests_total\{code="(\w+)",type="\w+"\} (\d+)$`)

// answers counts the daemon's answers by code.
func (f *fullDisk) answers() map[string]int {
	f.Helper()
	_, text := f.get("/metrics")
	codes := map[string]int{}
	for _, m := range requestsMetric.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			f.Fatal(err)
		}
		codes[m[1]] += n
	}
	return codes
}

// refused waits until so many commands more were refused with a code.
func (f *fullDisk) refused(code string, n int) {
	f.Helper()
	until := f.answers()[code] + n
	f.wait(fmt.Sprintf("%d commands to be refused with %s", n, code), func() bool { return f.answers()[code] >= until })
}

// get asks the daemon's HTTP listener.
func (f *fullDisk) get(path string) (status int, text string) {
	f.Helper()
	return httpGet(f.T, f.d, path)
}

// troubleBytes is how much the daemon has printed of warnings and errors.
func (f *fullDisk) troubleBytes() (n int) {
	f.Helper()
	b, err := os.ReadFile(f.d.log)
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		if !bytes.Contains(line, []byte(" DBG ")) && !bytes.Contains(line, []byte(" INF ")) {
			n += len(line)
		}
	}
	return n
}

// verify compares what clients were told with what the daemon says.
func (f *fullDisk) verify(restarted bool) {
	f.Helper()
	if err := f.compare(f.d.operator(), restarted); err != nil {
		f.Error(err)
	}
	if restarted {
		f.allCompleted(f.d)
	}
	codes := f.answers()
	for _, code := range []string{"STORAGE_FAILED", "INTERNAL", "OVERLOADED"} {
		if codes[code] > 0 {
			f.Errorf("%d requests were answered with %s", codes[code], code)
		}
	}
	if err := oneTurn(f.d.dial()); err != nil {
		f.Errorf("a turn with room again: %v", err)
	}
}

// notReady fails the test unless the daemon lives and says that the disk is full.
func (f *fullDisk) notReady() {
	f.Helper()
	if status, text := f.get("/healthz"); status != http.StatusOK {
		f.Errorf("healthz on a full disk: %d %s", status, text)
	}
	if status, text := f.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "STORAGE_FULL") {
		f.Errorf("readyz on a full disk: %d %s", status, text)
	}
	if told := doctor(f.home); !strings.Contains(told, "STORAGE_FULL") {
		f.Errorf("doctor on a full disk: %s", told)
	}
}

func (f *fullDisk) ready() {
	f.Helper()
	f.wait("the daemon to be ready again", func() bool { status, _ := f.get("/readyz"); return status == http.StatusOK })
}

func theHome(home, _ string) string { return home }

// TestFullHomeUnderLoad fills the disk of the home while clients ask for things: what
// is refused is refused with STORAGE_FULL, what was acknowledged stays, the daemon
// says how it is, does not flood its log, and goes on by itself once there is room.
func TestFullHomeUnderLoad(t *testing.T) {
	if os.Getenv(mountedEnv) == "" {
		inMountNamespace(t)
		return
	}
	f := onSmallDisk(t, theHome)
	f.acknowledged(loadAcks)
	before, asked := f.troubleBytes(), f.answers()["STORAGE_FULL"]
	fill(t, f.filler())
	f.refused("STORAGE_FULL", loadRefusals)
	f.hush()
	f.notReady()
	refusals := f.answers()["STORAGE_FULL"] - asked
	printed := f.troubleBytes() - before
	if printed > mostLogBytes {
		t.Errorf("%d refused commands made %d bytes of warnings", refusals, printed)
	}
	t.Logf("%d refused commands made %d bytes of warnings", refusals, printed)
	if err := os.Remove(f.filler()); err != nil {
		t.Fatal(err)
	}
	f.ready()
	f.ask()
	f.acknowledged(loadAcks)
	f.hush()
	f.verify(false)
	f.d.kill()
	f.d = start(t, f.home)
	f.verify(true)
	t.Logf("%d acknowledged commands, answers %v", f.tally.acks.Load(), f.answers())
}

// TestCrashOnAFullDisk kills the daemon while its disk is full, under load. The next
// start serves or says that there is no room; with room it serves, and nothing that
// was acknowledged is lost.
func TestCrashOnAFullDisk(t *testing.T) {
	if os.Getenv(mountedEnv) == "" {
		inMountNamespace(t)
		return
	}
	f := onSmallDisk(t, theHome)
	f.acknowledged(loadAcks)
	fill(t, f.filler())
	f.refused("STORAGE_FULL", loadRefusals/4)
	f.d.kill()
	f.hush()
	fill(t, f.filler()+"2")
	for range 2 {
		d := launch(t, f.home)
		if err := d.await(); err == nil {
			t.Log("it serves on the full disk")
			d.kill()
			continue
		}
		<-d.exited
		if code := d.cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("the start on a full disk ends with %d", code)
		}
		said := d.logTail()
		t.Logf("the start on the full disk says: %s", said)
		last := said[strings.LastIndex(said, "\n")+1:]
		if !strings.Contains(last, "no room") && !strings.Contains(last, "no space") {
			t.Errorf("it does not say that there is no room")
		}
	}
	if err := errors.Join(os.Remove(f.filler()), os.Remove(f.filler()+"2")); err != nil {
		t.Fatal(err)
	}
	f.d = start(t, f.home)
	f.verify(true)
}

// TestFirstStartOnAFullDisk starts on a disk that has no room at all.
func TestFirstStartOnAFullDisk(t *testing.T) {
	if os.Getenv(mountedEnv) == "" {
		inMountNamespace(t)
		return
	}
	home := newHome(t)
	mount(t, home, diskSize)
	writeSettings(t, home, nil)
	filler := filepath.Join(home, "filler")
	fill(t, filler)
	d := launch(t, home)
	if err := d.await(); err == nil {
		t.Fatal("it started")
	}
	<-d.exited
	said := d.logTail()
	if code := d.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said, "no room") {
		t.Errorf("it left with %d and said: %s", code, said)
	}
	t.Log(said)
	left, err := filepath.Glob(filepath.Join(home, "*.new"))
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v behind: %v", left, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d = start(t, home)
	if err := oneTurn(d.dial()); err != nil {
		t.Error(err)
	}
}

// TestFullWorkspacesUnderLoad fills the disk of the workspaces while the home has
// room: what needs a workspace or stores a file is refused, and leaves nothing; all
// else goes on.
func TestFullWorkspacesUnderLoad(t *testing.T) {
	if os.Getenv(mountedEnv) == "" {
		inMountNamespace(t)
		return
	}
	f := onSmallDisk(t, func(_, work string) string { return work })
	k := newDesk(t, f.d, "desk")
	old := []byte("what was there before")
	if res, err := k.put(k.ticket(len(old)), old); err != nil || res.status != http.StatusCreated {
		t.Fatalf("an upload with room: %d %v", res.status, err)
	}
	f.acknowledged(loadAcks / 4)
	fill(t, f.filler())
	info, err := os.Stat(f.filler())
	if err != nil {
		t.Fatal(err)
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(f.small, &disk); err != nil {
		t.Fatal(err)
	}
	// Has no room even if the load gives all of its own back, as uploads do that fail.
	body := bytes.Repeat([]byte("x"), int(disk.Blocks)*int(disk.Bsize)-int(info.Size())+1)
	if int64(len(body)) > info.Size() {
		t.Fatalf("%d bytes would have no room without the filler of %d either", len(body), info.Size())
	}
	for range 3 {
		res, err := k.put(k.ticket(len(body)), body)
		if err != nil || res.status != http.StatusInsufficientStorage || res.code != "STORAGE_FULL" {
			t.Errorf("an upload without room: %d %s %v", res.status, res.code, err)
		}
	}
	entries, err := os.ReadDir(k.assets)
	if err != nil || len(entries) != 1 {
		t.Errorf("the refused uploads left %v: %v", entries, err)
	}
	if kept, err := os.ReadFile(filepath.Join(k.assets, "f.bin")); err != nil || !bytes.Equal(kept, old) {
		t.Errorf("the file became %q: %v", clip(kept), err)
	}
	// The database has room, so there is nothing to be said about the daemon.
	if status, text := f.get("/readyz"); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, text)
	}
	f.acknowledged(loadAcks)
	if err := os.Remove(f.filler()); err != nil {
		t.Fatal(err)
	}
	if res, err := k.put(k.ticket(len(old)), old); err != nil || res.status != http.StatusCreated {
		t.Errorf("an upload with room again: %d %s %v", res.status, res.code, err)
	}
	f.acknowledged(loadAcks)
	f.hush()
	f.verify(false)
	f.d.kill()
	f.d = start(t, f.home)
	f.verify(true)
	t.Logf("answers %v", f.answers())
}

// TestFullTemporaryWorkspaces fills the disk on which temporary workspaces are made: a
// file for a thread on one is refused, all else goes on.
func TestFullTemporaryWorkspaces(t *testing.T) {
	if os.Getenv(mountedEnv) == "" {
		inMountNamespace(t)
		return
	}
	f := onSmallDisk(t, func(home, _ string) string { return filepath.Join(home, "workspaces") })
	k := &desk{t: t, d: f.d, c: f.d.dial()}
	k.id = newThread(t, k.c)
	f.acknowledged(loadAcks / 4)
	fill(t, f.filler())
	body := bytes.Repeat([]byte("x"), 200<<10)
	if res, err := k.put(k.ticket(len(body)), body); err != nil || res.status != http.StatusInsufficientStorage || res.code != "STORAGE_FULL" {
		t.Errorf("an upload without room: %d %s %v", res.status, res.code, err)
	}
	f.acknowledged(loadAcks)
	if err := os.Remove(f.filler()); err != nil {
		t.Fatal(err)
	}
	if res, err := k.put(k.ticket(len(body)), body); err != nil || res.status != http.StatusCreated {
		t.Errorf("an upload with room again: %d %s %v", res.status, res.code, err)
	}
	f.hush()
	f.verify(false)
}

// TestFullLogFolder fills the disk of the log alone: everything is served, stderr
// tells of it once, and the log of the gap.
func TestFullLogFolder(t *testing.T) {
	if os.Getenv(mountedEnv) == "" {
		inMountNamespace(t)
		return
	}
	f := onSmallDisk(t, func(home, _ string) string { return filepath.Join(home, "logs") })
	f.acknowledged(loadAcks / 4)
	fill(t, f.filler())
	var printed []byte
	f.wait("the log's last page to be full", func() (full bool) {
		printed, _ = os.ReadFile(f.d.log) // it is there since the start
		return bytes.Contains(printed, []byte("log file cannot be written"))
	})
	f.acknowledged(loadAcks)
	if err := os.Remove(f.filler()); err != nil {
		t.Fatal(err)
	}
	f.wait("the log to tell of its gap", func() bool { // with the next line, whichever command writes one
		logged, _ := os.ReadFile(filepath.Join(f.home, "logs", "core.log")) // it is there since the start
		return bytes.Contains(logged, []byte("lines are missing here"))
	})
	f.hush()
	f.verify(false)
	printed, err := os.ReadFile(f.d.log)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(printed, []byte("log file cannot be written")); n != 1 || bytes.Contains(printed, []byte("zerolog")) {
		t.Errorf("stderr tells of it %d times", n)
	}
	logged, err := os.ReadFile(filepath.Join(f.home, "logs", "core.log"))
	if err != nil || bytes.Count(logged, []byte("lines are missing here")) != 1 {
		t.Errorf("the log does not tell of its gap: %v\n%s", err, clip(logged))
	}
}
