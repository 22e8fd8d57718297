package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

// startLimit is how long a daemon may take to listen on a busy machine.
const startLimit = 20 * time.Second

var update = flag.Bool("update", false, "write golden files and generated parts of the docs again")

// TestMain makes the test binary the program itself when a script calls it.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"pedelec-core": main, cliName: main})
}

// leakChecked looks for goroutines that are left when all tests have passed.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "goleak:", err)
		return 1
	}
	return 0
}

// TestScripts runs the commands as a shell would; each script has a home of its
// own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("PEDELEC_HOME", home)
			env.Setenv("HOME", env.WorkDir)
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			program, err := exec.LookPath("pedelec-core") // the test binary under that name
			if err != nil {
				return err
			}
			return writeScriptedSettings(home, program, filepath.Join(env.WorkDir, "agent"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serving": cmdServing,
			"exits":   cmdExits,
			"thread":  cmdThread,
			"running": cmdRunning,
			"pending": cmdPending,
		},
	})
}

// cmdServing waits until a daemon has told where it listens: serving [HOME].
func cmdServing(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: serving [HOME]")
	}
	home := ts.Getenv("PEDELEC_HOME")
	if len(args) == 1 {
		home = ts.MkAbs(args[0])
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); <-tick.C {
		if _, err := ipc.ReadRuntimeFile(home); err == nil {
			return
		}
	}
	ts.Fatalf("no daemon listens in %s", home)
}

// cmdExits runs a program and checks its exit status: exits STATUS PROGRAM ARG...
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d\n[stdout]\n%s[stderr]\n%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

var threadID = regexp.MustCompile(`\bt[a-z0-9]{16}\b`)

// cmdThread sets $ID to the first thread id on the last command's stdout.
func cmdThread(ts *testscript.TestScript, neg bool, args []string) {
	id := threadID.FindString(ts.ReadFile("stdout"))
	if neg || len(args) > 0 || id == "" {
		ts.Fatalf("stdout names no thread")
	}
	ts.Setenv("ID", id)
}

// cmdRunning waits until a thread runs a turn and sets $ID to it.
func cmdRunning(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: running")
	}
	awaitThread(ts, func(s ipc.Snapshot) bool { return s.Status == "running" })
}

// cmdPending waits until a thread waits for the answer to a tool call and sets
// $ID to it.
func cmdPending(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: pending")
	}
	awaitThread(ts, func(s ipc.Snapshot) bool { return s.PendingToolRequest != nil })
}

func awaitThread(ts *testscript.TestScript, match func(ipc.Snapshot) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	c, err := ipc.Dial(ctx, ts.Getenv("PEDELEC_HOME"))
	ts.Check(err)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		threads, err := allThreads(ctx, c, "")
		ts.Check(err)
		for _, t := range threads {
			var s ipc.Snapshot
			ts.Check(c.Call(ctx, "thread_snapshot", threadPayload(t.ThreadID), &s))
			if match(s) {
				ts.Setenv("ID", t.ThreadID)
				return
			}
		}
	}
}
