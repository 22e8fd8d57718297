//go:build linux

package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// fileLedger keeps each entry in a file, so that it outlives a killed process.
type fileLedger string

func (dir fileLedger) Put(id string, value []byte) error {
	return os.WriteFile(string(dir)+"/"+id, value, 0o600)
}

func (dir fileLedger) Delete(id string) error { return os.Remove(string(dir) + "/" + id) }

func (dir fileLedger) All() (map[string][]byte, error) {
	names, err := readNames(string(dir))
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, name := range names {
		if all[name], err = os.ReadFile(string(dir) + "/" + name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// beDaemon starts a runtime with tools of all kinds, says their pids and waits
// to be killed.
func beDaemon(dir string) int {
	s := New(fileLedger(dir), "earlier-instance", zerolog.Nop())
	said := make(chan struct{}, 2)
	p, err := s.Start(background(), Spec{
		Provider: "fake",
		Path:     os.Args[0],
		Env:      []string{childEnv + "=group,session,hang"},
		OnFrame:  func(_ *Process, frame []byte) { fmt.Printf("%s\n", frame); said <- struct{}{} },
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-said
	<-said
	fmt.Printf("{\"frame\":\"%d\"}\n", p.PID)
	select {}
}

func TestSweepKillsWhatAKilledDaemonLeft(t *testing.T) {
	dir := t.TempDir()
	daemon := exec.Command(os.Args[0])
	daemon.Env = append(os.Environ(), childEnv+"=daemon:"+dir)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	var group, session, leader int
	lines := bufio.NewScanner(out)
	for _, pid := range []*int{&group, &session, &leader} {
		if !lines.Scan() {
			t.Fatal("the daemon said nothing")
		}
		if _, err := fmt.Sscanf(lines.Text(), `{"frame":"%d"}`, pid); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	awaitDead(t, leader) // by its parent-death signal
	for _, pid := range []int{group, session} {
		if !alive(pid) {
			t.Fatalf("tool %d died with the daemon: nothing is left to sweep", pid)
		}
	}
	stranger := startStranger(t)

	s := New(fileLedger(dir), "this-instance", zerolog.Nop())
	defer s.Close()
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{group, session} {
		if alive(pid) {
			t.Errorf("tool %d is alive", pid)
		}
	}
	if !alive(stranger) {
		t.Error("a stranger was killed")
	}
	if left, _ := fileLedger(dir).All(); len(left) != 0 {
		t.Errorf("%d entries left", len(left))
	}
}

// startStranger starts a process that has nothing to do with us, in a group of
// its own.
func startStranger(t *testing.T) int {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = []string{childEnv + "=hang"}
	c.SysProcAttr = spawnAttr()
	c.SysProcAttr.Pdeathsig = 0
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c.Process.Pid
}

func TestSweepTrustsAPidOnlyWithItsStartTimeInItsBoot(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Entry)
		dies   bool
	}{
		{"the recorded process", func(*Entry) {}, true},
		{"another start time: the pid was used again", func(e *Entry) { e.StartTime++ }, false},
		{"another boot", func(e *Entry) { e.BootID = "earlier" }, false},
		{"no start time", func(e *Entry) { e.StartTime = 0 }, false},
		{"no boot", func(e *Entry) { e.BootID = "" }, false},
		{"our own instance", func(e *Entry) { e.Instance = "this-instance" }, false},
		{"ourselves", func(e *Entry) { e.PID = os.Getpid() }, false},
		{"the first process", func(e *Entry) { e.PID = 1 }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			pid := startStranger(t)
			e := Entry{RuntimeID: "of-nobody", Instance: "earlier-instance", BootID: bootID(), PID: pid}
			var err error
			if e.StartTime, err = startTime(pid); err != nil {
				t.Fatal(err)
			}
			tt.change(&e)
			if err := f.record(e); err != nil {
				t.Fatal(err)
			}
			if err := f.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tt.dies {
				awaitDead(t, pid)
			} else if !alive(pid) {
				t.Error("a stranger was killed")
			}
			if kept := f.ledger.size() == 1; kept != (e.Instance == "this-instance") {
				t.Errorf("entry kept: %v", kept)
			}
		})
	}
}

// The daemon may have died between the start and the record of the pid.
func TestSweepFindsARuntimeWithoutAPidByItsMark(t *testing.T) {
	f := newFixture(t)
	if err := f.record(Entry{RuntimeID: "marked", Instance: "earlier-instance"}); err != nil {
		t.Fatal(err)
	}
	ours, other := startSleeper(t, 0, "marked"), startSleeper(t, 0, "another")
	if err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitDead(t, ours)
	if !alive(other) {
		t.Error("a process of another id was killed")
	}
	f.mustBeEmpty(t)
}

func TestSweepLeavesOtherUsersAlone(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to start a process of another user")
	}
	const nobody = 65534
	f := newFixture(t)
	if err := f.record(Entry{RuntimeID: "marked", Instance: "earlier-instance"}); err != nil {
		t.Fatal(err)
	}
	foreign := startSleeper(t, nobody, "marked")
	if err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !alive(foreign) {
		t.Error("a process of another user was killed")
	}
}

// startSleeper starts a process that carries a runtime id, under a uid; 0 means
// our own.
func startSleeper(t *testing.T, uid uint32, id string) int {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no sleep here")
	}
	c := exec.Command(path, "1000")
	c.Env = []string{RuntimeIDEnv + "=" + id}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if uid != 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c.Process.Pid
}

// failingLedger fails in one method.
type failingLedger struct {
	memoryLedger
	all, remove error
}

func (l *failingLedger) All() (map[string][]byte, error) {
	if l.all != nil {
		return nil, l.all
	}
	return l.memoryLedger.All()
}

func (l *failingLedger) Delete(id string) error {
	if l.remove != nil {
		return l.remove
	}
	return l.memoryLedger.Delete(id)
}

func TestAFailedSweepKeepsItsEntries(t *testing.T) {
	given, give := context.WithCancel(t.Context())
	give()
	tests := []struct {
		name   string
		ctx    context.Context
		ledger *failingLedger
		points string
		want   error
	}{
		{"ledger cannot be read", nil, &failingLedger{all: errLedger}, "", errLedger},
		{"ledger cannot be written", nil, &failingLedger{remove: errLedger}, "", errLedger},
		{"given up", given, &failingLedger{}, "", context.Canceled},
		{"fails after the kill", nil, &failingLedger{}, "proc.sweep.killed=error", fault.ErrInjected},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := fault.Arm(tt.points); err != nil {
				t.Fatal(err)
			}
			defer fault.Arm("")
			s := New(tt.ledger, "this-instance", zerolog.Nop())
			defer s.Close()
			if err := s.record(Entry{RuntimeID: "left", Instance: "earlier-instance"}); err != nil {
				t.Fatal(err)
			}
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			if err := s.Sweep(ctx); !errors.Is(err, tt.want) {
				t.Errorf("sweep: %v, want %v", err, tt.want)
			}
			if tt.ledger.size() != 1 {
				t.Error("the entry is gone")
			}
		})
	}
}

func TestAnEntryThatCannotBeRemovedHurtsNothing(t *testing.T) {
	ledger := &failingLedger{remove: errLedger}
	s := New(ledger, "this-instance", zerolog.Nop())
	defer s.Close()
	p, err := s.Start(t.Context(), Spec{Path: os.Args[0], Env: []string{childEnv + "=exit:0", noExitPause}})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, p.Done())
	if ledger.size() != 1 {
		t.Error("the entry is gone")
	}
}

func TestAStartThatWaitsForTheSweepCanBeGivenUp(t *testing.T) {
	f := newFixture(t)
	defer f.beginSweep()()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Start(ctx, Spec{Path: os.Args[0]}); !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
}

func TestSweepClearsAnUnreadableEntry(t *testing.T) {
	f := newFixture(t)
	_ = f.ledger.Put("damaged", []byte{99})
	if err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.mustBeEmpty(t)
}

func TestAStartWaitsForTheSweep(t *testing.T) {
	f := newFixture(t)
	end := f.beginSweep()
	started := make(chan *Process, 1)
	go func() {
		p, _ := f.Start(background(), Spec{Path: os.Args[0], Env: []string{childEnv + "=hang"}})
		started <- p
	}()
	select {
	case <-started:
		t.Error("started during the sweep")
	default:
	}
	end()
	if p := receive(t, started); p == nil {
		t.Error("did not start after the sweep")
	}
}

func TestAHeldStartWaitsForASweepThatIsYetToBegin(t *testing.T) {
	f := newFixture(t)
	f.HoldStarts()
	started := make(chan *Process, 1)
	go func() {
		p, _ := f.Start(background(), Spec{Path: os.Args[0], Env: []string{childEnv + "=hang"}})
		started <- p
	}()
	select {
	case <-started:
		t.Error("started before the sweep")
	default:
	}
	if err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := receive(t, started); p == nil {
		t.Error("did not start after the sweep")
	}
	if err := f.Sweep(t.Context()); err != nil { // a later one is an ordinary one
		t.Fatal(err)
	}
}

func TestParseStartTime(t *testing.T) {
	tests := []struct {
		name, stat string
		want       uint64
		fails      bool
	}{
		{"plain", "7 (sh) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 2", 4711, false},
		{"name with parentheses and spaces", "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 2", 4711, false},
		{"short", "7 (sh) S 1", 0, true},
		{"empty", "", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStartTime([]byte(tt.stat))
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func TestEntryRoundTrip(t *testing.T) {
	want := Entry{RuntimeID: "id", Provider: "codex", Instance: "i", BootID: "b", PID: 4, StartTime: 1 << 60}
	value, err := encodeEntry(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeEntry("id", value); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, damaged := range [][]byte{nil, {2}, {1}, []byte("\x01{"), []byte(strings.Repeat("x", 10))} {
		if _, err := decodeEntry("id", damaged); err == nil {
			t.Errorf("decoded %q", damaged)
		}
	}
}
