package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/store"
)

// stopLimit is how long after TERM anything of an agent may live.
const stopLimit = 1200 * time.Millisecond

// hidden names the one of a family that cleared its environment and left the group:
// it is not found, which the guarantees say.
const hidden = "hidden"

// family is an agent that ignores every wish to leave, and what it started, by name.
type family struct {
	dir    string // what the members write down
	home   string
	thread string
	pids   map[string]int
}

// familySettings make an agent that starts, besides what its prompt says, members in
// its group and out of it: one that notes when the group gets TERM, one that was forked
// twice, ignores TERM and has little left of its environment, and one that has nothing
// left and holds the agent's output.
func (f *family) settings(t *testing.T) {
	t.Helper()
	note, err := helperCommand("note-term", filepath.Join(f.dir, "term"))
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`case "$*" in *" acp")
	%q %q %q %q </dev/null >/dev/null 2>&1 &
	(trap "" TERM; setsid env -u HOME -u LANG -u PATH -u PWD sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >%[5]q)
	(setsid env -i sleep 1000 </dev/null 2>/dev/null & echo $! >%[6]q)
esac
exec "$@"
`, note[0], note[1], note[2], note[3], filepath.Join(f.dir, "stripped.pid"), filepath.Join(f.dir, hidden+".pid"))
	wrapper := filepath.Join(f.dir, "agent.sh")
	if err := os.WriteFile(wrapper, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	writeSettings(t, f.home, object{"providerSettings": object{"opencode": object{
		"command": []string{"/bin/sh", wrapper, binary, "agent", "--scripted"},
		"env":     object{"PEDELEC_SCRIPTED_STATE": filepath.Join(f.dir, "sessions")},
	}}})
}

// newFamily starts a daemon and lets an agent and its members run. What the sweep does
// not find is ended with the test.
func newFamily(t *testing.T, env ...string) (*family, *daemon) {
	t.Helper()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs the program setsid")
	}
	f := &family{dir: t.TempDir(), home: newHome(t), pids: map[string]int{}}
	f.settings(t)
	d := start(t, f.home, env...)
	c := d.dial()
	f.thread = newThread(t, c)
	if err := c.call("subscribe_thread", object{"threadId": f.thread}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.call("send_text", object{"threadId": f.thread, "operationId": "op", "message": "ignore-term ; grandchild ; detached ; echo up ; echo and on ; hang-hard"}, nil); err != nil {
		t.Fatal(err)
	}
	events, err := c.until(patience, func(e event) bool {
		return e.Type == "assistant_message" && e.Text == "up" || e.Type == "operation_completed"
	})
	if err != nil {
		t.Fatalf("%v; so far %s", err, kinds(events))
	}
	for _, e := range events {
		if name, pid, found := strings.Cut(e.Text, " pid="); found && e.Type == "assistant_message" {
			f.add(t, name, pid)
		}
	}
	t.Cleanup(func() { _ = syscall.Kill(f.pids[hidden], syscall.SIGKILL) })
	for name, file := range map[string]string{"witness": "term.pid", "stripped": "stripped.pid", hidden: hidden + ".pid"} {
		err := waitFor(patience, "the "+name, func() (bool, error) {
			text, err := os.ReadFile(filepath.Join(f.dir, file))
			if err == nil && len(text) > 0 {
				f.add(t, name, strings.TrimSpace(string(text)))
				return true, nil
			}
			return false, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	agents, err := runtimePIDs(d.operator())
	if err != nil || len(agents) != 1 {
		t.Fatalf("agents %v, %v", agents, err)
	}
	f.pids["agent"] = agents[0]
	if want := []string{"agent", "detached", "grandchild", hidden, "stripped", "witness"}; !slices.Equal(f.alive(), want) {
		t.Fatalf("alive are %v, want %v", f.alive(), want)
	}
	return f, d
}

func (f *family) add(t *testing.T, name, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	f.pids[name] = n
}

// alive names the members that run.
func (f *family) alive() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.pids)), func(name string) bool { return isZombie(f.pids[name]) })
}

// gone reports whether nobody is left but the hidden one.
func (f *family) gone() bool { return slices.Equal(f.alive(), []string{hidden}) }

func TestNothingOfAnAgentOutlivesItsStop(t *testing.T) {
	f, d := newFamily(t, "PEDELEC_DURATIONS=stop=100ms")
	c := d.operator()
	if err := c.call("end_thread", object{"threadId": f.thread}, nil); err != nil {
		t.Fatal(err)
	}
	if err := waitFor(patience, "the family's end", func() (bool, error) { return f.gone(), nil }); err != nil {
		t.Fatalf("%v; alive are %v", err, f.alive())
	}
	ended := time.Now()
	text, err := os.ReadFile(filepath.Join(f.dir, "term"))
	if err != nil {
		t.Fatal("nobody was asked to leave:", err)
	}
	at, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	took := ended.Sub(time.Unix(0, at))
	t.Logf("gone %v after TERM", took.Round(time.Millisecond))
	if took > stopLimit {
		t.Errorf("gone %v after TERM, want %v", took, stopLimit)
	}
	// The hidden one holds the agent's output, which delays the end of the runtime only.
	if err := waitFor(patience, "the daemon to be done with the agent", func() (bool, error) {
		pids, err := runtimePIDs(c)
		return len(pids) == 0 && len(zombies(d.info.PID)) == 0, err
	}); err != nil {
		t.Error(err)
	}
	d.pong()
}

// TestNothingOfAnAgentOutlivesAKilledDaemon also puts entries into the ledger that name
// a process which has nothing to do with the daemon, and lets a daemon of another home
// run beside.
func TestNothingOfAnAgentOutlivesAKilledDaemon(t *testing.T) {
	t.Parallel()
	f, d := newFamily(t)
	other, _ := newFamily(t)
	d.kill()
	if left := f.alive(); !slices.Contains(left, "grandchild") || !slices.Contains(left, "detached") || !slices.Contains(left, "stripped") {
		t.Fatalf("only %v outlived the daemon, which shows nothing", left)
	}
	stranger := startStranger(t)
	recycle(t, f.home, stranger)

	began := time.Now()
	d = start(t, f.home)
	if err := waitFor(orphanLimit, "the last of the family to be gone", func() (bool, error) { return f.gone(), nil }); err != nil {
		t.Errorf("%v; alive are %v", err, f.alive())
	}
	t.Logf("gone %v after the start", time.Since(began).Round(time.Millisecond))
	c := d.dial()
	id := newThread(t, c)
	if err := c.call("send_text", object{"threadId": id, "operationId": "op", "message": "hang"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := waitFor(patience, "another agent, which waits for the sweep", func() (bool, error) {
		pids, err := runtimePIDs(d.operator())
		return len(pids) == 1, err
	}); err != nil {
		t.Fatal(err)
	}
	if isZombie(stranger) {
		t.Error("a process that has nothing to do with the daemon was killed")
	}
	if len(other.alive()) != len(other.pids) {
		t.Errorf("of another home's agent only %v are alive", other.alive())
	}
}

// startStranger starts a process in a group of its own that nobody's mark is on.
func startStranger(t *testing.T) int {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("needs the program sleep")
	}
	cmd := exec.Command(sleep, "1000")
	cmd.Env = []string{"A=b"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// recycle makes a dead daemon's ledger name a process that came to its pid later: it
// was started at another time, or in another boot.
func recycle(t *testing.T, home string, pid int) {
	t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	started, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(filepath.Join(home, "core.db"))
	s.InstanceID = "forger"
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for id, entry := range map[string]object{
		"recycled":     {"bootId": strings.TrimSpace(string(boot)), "startTime": started + 1},
		"another-boot": {"bootId": "00000000-0000-4000-8000-000000000000", "startTime": started},
		"no-time":      {"bootId": strings.TrimSpace(string(boot))},
	} {
		entry["provider"], entry["instance"], entry["pid"] = "opencode", "earlier", pid
		value, err := json.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		const entryVersion = 1
		if err := s.KV(store.Processes).Put(id, append([]byte{entryVersion}, value...)); err != nil {
			t.Fatal(err)
		}
	}
}

// Shape of the test of many starts.
const (
	agentCycles = 100
	warmCycles  = 6 // after which all is made that is made once
)

// TestManyAgentsLeaveNothingBehind lets a hundred agents begin and end, half of them
// by their own doing.
func TestManyAgentsLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	t.Parallel()
	d := start(t, newHome(t), "PEDELEC_DURATIONS=idle-stop=5ms;back-off=1ms;linger=10ms")
	cycle := func(n int) {
		t.Helper()
		c := d.operator()
		defer c.Close()
		id := newThread(t, c)
		if err := c.call("subscribe_thread", object{"threadId": id}, nil); err != nil {
			t.Fatal(err)
		}
		text := []string{"echo x", "exit 3", "echo x", "crash"}[n%4]
		if err := c.call("send_text", object{"threadId": id, "operationId": "op", "message": text}, nil); err != nil {
			t.Fatal(err)
		}
		events, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" })
		if err != nil {
			t.Fatalf("%v; so far %s", err, kinds(events))
		}
		if last := events[len(events)-1]; last.Success != (n%2 == 0) {
			t.Fatalf("%s ended with %s", text, last.raw)
		}
		for _, kind := range []string{"end_thread", "delete_thread"} {
			if err := c.call(kind, object{"threadId": id}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := waitFor(patience, "the agent's end", func() (bool, error) {
			pids, err := runtimePIDs(c)
			return len(pids) == 0, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range warmCycles {
		cycle(n)
	}
	before := held(t, d)
	for n := range agentCycles {
		cycle(n)
	}
	var after holdings
	if err := waitFor(patience, "all to be given back", func() (bool, error) {
		after = held(t, d)
		return after.files <= before.files && after.goroutines <= before.goroutines && after.zombies == 0, nil
	}); err != nil {
		t.Errorf("%v: before %+v, after %d agents %+v", err, before, agentCycles, after)
	}
	t.Logf("before %+v, after %d agents %+v", before, agentCycles, after)
	if left := agents(d.home); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// holdings is what a daemon has of the system.
type holdings struct {
	files, goroutines, zombies int
}

func held(t *testing.T, d *daemon) holdings {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.info.PID))
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := readMetrics(d)
	if err != nil {
		t.Fatal(err)
	}
	return holdings{len(files), int(metrics["go_goroutines"]), len(zombies(d.info.PID))}
}

// floodLimit is what the daemon's memory may grow by while an agent floods it with
// 400 MB, in bytes: a line's buffer as it grows, and what is not collected yet.
const floodLimit = 128 << 20

// TestAFloodOfAnAgentDoesNotFillTheMemory lets a turn go on through 10 MB on standard
// error, lines that are too long by little and by much, and others that are none.
func TestAFloodOfAnAgentDoesNotFillTheMemory(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t))
	c := d.dial()
	id := newThread(t, c)
	if err := c.call("subscribe_thread", object{"threadId": id}, nil); err != nil {
		t.Fatal(err)
	}
	run := func(op, text string) []event {
		t.Helper()
		if err := c.call("send_text", object{"threadId": id, "operationId": op, "message": text}, nil); err != nil {
			t.Fatal(err)
		}
		events, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" })
		if err != nil {
			t.Fatalf("%v; so far %s", err, kinds(events))
		}
		if last := events[len(events)-1]; !last.Success {
			t.Fatalf("the turn ended with %s", last.raw)
		}
		return events
	}
	run("calm", "echo calm")
	before := peakMemory(t, d)
	flood := "stderr 10000000 ; banner ; bigline 200000000 ; split" + strings.Repeat(" ; bigline 17825792", 10)
	events := run("flood", flood)
	if !slices.ContainsFunc(events, func(e event) bool { return e.Type == "assistant_message" && e.Text == "Grüße aus 東京 🚲" }) {
		t.Errorf("the text between the lines is missing: %s", kinds(events))
	}
	grown := peakMemory(t, d) - before
	t.Logf("the peak grew by %.1f MiB", float64(grown)/(1<<20))
	if grown > floodLimit {
		t.Errorf("the peak grew by %d bytes, want %d at most", grown, floodLimit)
	}
	run("calm again", "echo calm")
	if pids, err := runtimePIDs(d.operator()); err != nil || len(pids) != 1 {
		t.Errorf("agents %v, %v", pids, err)
	}
}

// peakMemory returns the most resident memory that the daemon has had so far.
func peakMemory(t *testing.T, d *daemon) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.info.PID))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
