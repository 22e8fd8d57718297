package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"github.com/pedelec/pedelec-core/internal/store"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Sizes of the measurements of this file.
const (
	storedThreads = 10_000
	startRuns     = 9
	idleThreads   = 2_000
	helpRuns      = 15
)

// Targets.
const (
	startTarget       = 50 * time.Millisecond
	startRatioTarget  = 1.5
	idleMemoryTarget  = 25 << 20 // bytes
	threadMemory      = 16 << 10 // bytes
	binaryTarget      = 20 << 20 // bytes
	helpTarget        = 20 * time.Millisecond
	startPollInterval = 100 * time.Microsecond
)

// fillStore makes a database with threads that a daemon left in the middle of a
// turn, on workspaces of its own: each of them needs settling.
func fillStore(t testing.TB, home string, n int) {
	t.Helper()
	s := store.New(filepath.Join(home, "core.db"))
	s.InstanceID = "earlier"
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.SetLimit(64) // so many share a commit
	for i := range n {
		g.Go(func() error { return s.Commit(crashedThread(home, i)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func crashedThread(home string, i int) thread.Commit {
	id := fmt.Sprintf("t%016d", i)
	now := time.Now().UTC()
	active := &thread.ActiveOperation{ID: "op", Kind: thread.User, StartedAt: now}
	return thread.Commit{
		Create: true,
		Record: thread.Record{
			ID: id, Revision: 1, Instance: "earlier", Provider: thread.OpenCode, Effort: thread.DefaultEffort,
			Workspace: thread.Workspace{Path: filepath.Join(home, "workspaces", id), Managed: true, Instance: "earlier"},
			CreatedAt: now, UpdatedAt: now, Status: thread.Running, LatestSeq: 3, BlockEnd: 3 + thread.SequenceBlock, Active: active,
		},
		Events: []thread.Event{
			{Kind: thread.EventCreated, Seq: 1},
			{Kind: thread.EventStatusChanged, Seq: 2, Status: thread.Idle},
			{Kind: thread.EventStatusChanged, Seq: 3, Status: thread.Running, OperationID: "op"},
		},
		Operations: []thread.Operation{{
			ID: "op", Kind: thread.User, Hash: thread.HashText("x"), Text: "x", AdmittedSeq: 3, StartedAt: now,
		}},
	}
}

// firstPing starts a daemon, measures the time to its first answer, and kills it.
func firstPing(t testing.TB, home string) time.Duration {
	t.Helper()
	began := time.Now()
	d := launch(t, home)
	defer d.cleanUp()
	tick := time.NewTicker(startPollInterval)
	defer tick.Stop()
	for time.Since(began) < startLimit {
		<-tick.C
		b, err := os.ReadFile(filepath.Join(home, "runtime.json"))
		if err != nil || json.Unmarshal(b, &d.info) != nil || d.info.PID != d.cmd.Process.Pid {
			continue
		}
		c, err := net.Dial("tcp", d.info.Endpoint)
		if err != nil {
			continue
		}
		defer c.Close()
		if _, err := c.Write([]byte(`{"requestId":"p","type":"ping"}` + "\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(c).ReadBytes('\n'); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	t.Fatalf("no ping was answered:\n%s", d.logTail())
	return 0
}

func benchStart(t *testing.T, r *report) {
	empty, full := newHome(t), newHome(t)
	fillStore(t, full, storedThreads)
	var emptyTimes, fullTimes samples
	for range startRuns {
		emptyTimes = append(emptyTimes, firstPing(t, empty))
		fullTimes = append(fullTimes, firstPing(t, full))
	}
	a, b := fullTimes.median(), emptyTimes.median()
	r.add(figure{
		id: "N1", what: fmt.Sprintf("start → first answered ping, %d threads to settle", storedThreads), value: ms(a), baseline: ms(b) + ", empty store",
		ratio: ratio(a, b), target: "≤ 50 ms, ≤ 1.5 ×", reached: a <= startTarget && ratio(a, b) <= startRatioTarget,
	})
}

// anonymousMemory is the resident memory of a process that no file backs.
func anonymousMemory(pid int) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the system does not tell the memory of process %d", pid)
}

func benchMemory(t *testing.T, r *report) {
	d := start(t, newHome(t))
	d.pong()
	idle, err := anonymousMemory(d.cmd.Process.Pid)
	if err != nil {
		t.Skip(err)
	}
	skeleton := skeletonMemory(t)
	r.add(figure{
		id: "N2", what: "anonymous memory, idle", value: mib(idle), baseline: mib(skeleton) + ", a Go program that listens",
		ratio: float64(idle) / float64(skeleton), target: "≤ 25 MB", reached: idle <= idleMemoryTarget,
	})
	c := d.dial()
	for range idleThreads {
		if err := c.call("thread_snapshot", object{"threadId": newThread(t, c)}, nil); err != nil { // loads it
			t.Fatal(err)
		}
	}
	loaded, err := anonymousMemory(d.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	each := (loaded - idle) / idleThreads
	r.add(figure{
		id: "N2", what: fmt.Sprintf("anonymous memory per loaded idle thread (%d of them)", idleThreads), value: fmt.Sprintf("%.1f KB", float64(each)/1024),
		target: "≤ 16 KB", reached: each <= threadMemory,
	})
}

func mib(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }

// skeletonMemory measures the smallest Go program that serves a port.
func skeletonMemory(t *testing.T) int64 {
	t.Helper()
	dir := t.TempDir()
	source := "package main\n\nimport (\n\t\"io\"\n\t\"net\"\n\t\"os\"\n)\n\nfunc main() {\n\tl, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\n" +
		"\tif err != nil {\n\t\tpanic(err)\n\t}\n\tprintln(l.Addr().String())\n\tio.Copy(io.Discard, os.Stdin)\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "skeleton")
	build := exec.Command("go", "build", "-o", program, filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdin.Close()
		_ = cmd.Wait()
	}()
	if _, err := bufio.NewReader(stderr).ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	n, err := anonymousMemory(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func benchBinary(t *testing.T, r *report) {
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	r.add(figure{
		id: "N16", what: "size of the program, stripped", value: mib(info.Size()), target: "≤ 20 MB", reached: info.Size() <= binaryTarget,
	})
	var times samples
	for range helpRuns {
		began := time.Now()
		if out, err := exec.Command(binary, "--help").CombinedOutput(); err != nil {
			t.Fatalf("--help: %v\n%s", err, out)
		}
		times = append(times, time.Since(began))
	}
	r.add(figure{id: "N16", what: "`--help`", value: ms(times.median()), target: "≤ 20 ms", reached: times.median() <= helpTarget})
}
