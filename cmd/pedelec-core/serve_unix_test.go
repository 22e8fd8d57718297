//go:build unix

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

func TestServeLeavesCleanlyOnASignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			if signal.Ignored(sig) {
				t.Skip("whoever started the tests ignores this signal, so the daemon does, too")
			}
			s := newTestStage(t)
			if _, err := s.launch(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.signal(t, sig)
			if err := s.awaitExit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(s.home, ipc.RuntimeFileName)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the runtime file is still there: %v", err)
			}
		})
	}
}

func TestServeInTheBackgroundIgnoresTheTerminalsEnd(t *testing.T) {
	s := newTestStage(t)
	s.flags = []string{"--background"}
	client, err := s.launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGHUP)
	s.signal(t, syscall.SIGHUP)
	if err := client.Call(t.Context(), "ping", nil, nil); err != nil {
		t.Fatalf("after the hang-up: %v", err)
	}
	if err := client.Call(t.Context(), "shutdown", nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.awaitExit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestServeLeavesAtOnceOnASecondSignal(t *testing.T) {
	s := newTestStage(t)
	s.env = []string{fault.PointsEnv + "=store.close.before=sleep:1h"}
	client, err := s.launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGTERM)
	// Once nobody answers any more, the daemon is about to close its database.
	awaitThat(t, "the daemon to close its listeners", func() bool {
		return fault.Is(client.Call(t.Context(), "ping", nil, nil), fault.CoreRuntimeUnavailable)
	})
	start := time.Now()
	s.signal(t, syscall.SIGTERM)
	<-s.exited
	var exit *exec.ExitError
	if !errors.As(s.exit, &exit) || exit.ExitCode() != fault.ExitFailed {
		t.Errorf("it ended with %v, want status %d", s.exit, fault.ExitFailed)
	}
	if took := time.Since(start); took > leaveLimit/2 {
		t.Errorf("it took %v", took)
	}
}

func TestServeLeavesWithItsParent(t *testing.T) {
	s := newTestStage(t)
	parent := exec.Command(s.program, "agent", "--scripted", "acp") // lives as long as its input
	input, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	s.parentPID = parent.Process.Pid
	if _, err := s.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	input.Close()
	if err := parent.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.awaitExit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestServeTellsTheServiceManager(t *testing.T) {
	s := newTestStage(t)
	socket := filepath.Join(s.parent, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	s.env = []string{"NOTIFY_SOCKET=" + socket}
	if _, err := s.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantTold := func(want string) {
		t.Helper()
		got := make([]byte, 100)
		n, err := manager.Read(got)
		if err != nil || string(got[:n]) != want {
			t.Fatalf("the manager was told %q, %v; want %q", got[:n], err, want)
		}
	}
	wantTold("READY=1")
	s.signal(t, syscall.SIGTERM)
	wantTold("STOPPING=1")
	if err := s.awaitExit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := s.daemon.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// awaitThat waits for a condition of another process, which cannot be waited on
// otherwise.
func awaitThat(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(gonePoll)
	defer tick.Stop()
	for deadline := time.Now().Add(startLimit); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
