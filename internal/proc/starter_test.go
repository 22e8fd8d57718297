//go:build linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestAFailedStartLeavesNothing(t *testing.T) {
	notExecutable := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notExecutable, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name    string
		ctx     context.Context
		spec    Spec
		failPut int
		points  string
		cause   error
	}{
		{name: "no such program", spec: Spec{Path: "/no/such/program"}, cause: os.ErrNotExist},
		{name: "not executable", spec: Spec{Path: notExecutable}, cause: os.ErrPermission},
		{name: "no such directory", spec: Spec{Path: os.Args[0], Dir: "/no/such/dir"}, cause: os.ErrNotExist},
		{name: "relative path", spec: Spec{Path: "program"}},
		{name: "ledger refuses the announcement", failPut: 1, cause: errLedger},
		{name: "ledger refuses the pid", failPut: 2, cause: errLedger},
		{name: "given up", ctx: cancelled, cause: context.Canceled},
		{name: "fails between record and start", points: "proc.start.recorded=error", cause: fault.ErrInjected},
		{name: "fails between start and second record", points: "proc.start.spawned=error", cause: fault.ErrInjected},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := fault.Arm(tt.points); err != nil {
				t.Fatal(err)
			}
			defer fault.Arm("")
			f := newFixture(t)
			f.ledger.failPut = tt.failPut
			if tt.spec.Path == "" {
				tt.spec.Path = os.Args[0]
			}
			tt.spec.Env = []string{childEnv + "=hang"}
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			p, err := f.Start(ctx, tt.spec)
			if p != nil || !fault.Is(err, fault.ProviderRuntimeStartFailed) {
				t.Fatalf("start: %v, %v", p, err)
			}
			if tt.cause != nil && !errors.Is(err, tt.cause) {
				t.Errorf("cause of %v, want %v", err, tt.cause)
			}
			f.mustBeEmpty(t)
			if kids := children(t); len(kids) != 0 {
				t.Errorf("children left: %v", kids)
			}
		})
	}
}

func TestAProgramStartsWhereTheTemporaryDirectoryIsGone(t *testing.T) {
	f := newFixture(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
	p := f.child(t, "hang")
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID)); err != nil || dir != "/" {
		t.Errorf("it runs in %q, %v", dir, err)
	}
}

func TestCloseStopsAllAndRefusesMore(t *testing.T) {
	f := newFixture(t)
	var all []*runtimeUnderTest
	for range 5 {
		all = append(all, f.child(t, "ignore-term,hang"))
	}
	f.Close()
	for _, p := range all {
		if alive(p.PID) {
			t.Errorf("process %d is alive", p.PID)
		}
	}
	if _, err := f.Start(t.Context(), Spec{Path: os.Args[0]}); !fault.Is(err, fault.CoreRuntimeUnavailable) {
		t.Errorf("start after close: %v", err)
	}
	f.mustBeEmpty(t)
}

func TestAChildSeesTheAllowedEnvironmentOnly(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("CLAUDECODE", "1")
	t.Setenv("AGENT_TOKEN", "inherited on request")
	f := newFixture(t)
	var seen string
	got := make(chan struct{})
	p, err := f.Start(t.Context(), Spec{
		Path:    os.Args[0],
		Env:     []string{childEnv + "=environ", "EXTRA=1"},
		Inherit: []string{"AGENT_*"},
		OnFrame: func(_ *Process, frame []byte) { seen = string(frame); close(got) },
	})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, got)
	for _, want := range []string{"PEDELEC_RUNTIME=" + p.RuntimeID, "EXTRA=1", "AGENT_TOKEN=", "PATH=", "NO_PROXY="} {
		if !strings.Contains(seen, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, bad := range []string{"AWS_", "CLAUDECODE"} {
		if strings.Contains(seen, bad) {
			t.Errorf("%s was passed on", bad)
		}
	}
}

// TestAThousandCyclesLeaveNothing runs small programs, half of which end by
// themselves.
func TestAThousandCyclesLeaveNothing(t *testing.T) {
	cycles := 1000
	if testing.Short() {
		cycles = 100
	}
	var programs [2]string
	for i, name := range []string{"true", "cat"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		programs[i] = path
	}
	f := newFixture(t)
	f.Log = zerolog.Nop()
	f.child(t, "exit:0").Stop(nil) // what is made once is made
	fds, goroutines := openFiles(t), runtime.NumGoroutine()
	for i := range cycles {
		p, err := f.Start(t.Context(), Spec{Path: programs[i%2]})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			p.Stop(nil)
		}
		receive(t, p.Done())
	}
	if now := openFiles(t); now > fds {
		t.Errorf("%d open files, %d before", now, fds)
	}
	if now := runtime.NumGoroutine(); now > goroutines+2 { // an exit's last goroutines may be on their way
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
	if kids := children(t); len(kids) != 0 {
		t.Errorf("children or zombies left: %v", kids)
	}
	f.mustBeEmpty(t)
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := readNames("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// children lists the processes, zombies too, whose parent we are.
func children(t *testing.T) []string {
	t.Helper()
	var kids []string
	threads, err := readNames("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		list, err := os.ReadFile("/proc/self/task/" + thread + "/children")
		if err == nil {
			kids = append(kids, strings.Fields(string(list))...)
		}
	}
	return slices.Compact(kids)
}
