//go:build linux

package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shell returns a command that runs a script.
func shell(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Limit: 1 << 10}
}

func TestOutputIsWhatAProgramPrints(t *testing.T) {
	tests := []struct {
		name    string
		command Command
		want    string
		status  int // of an *exec.ExitError; 0 = none
	}{
		{"stdout alone", shell("echo out; echo err >&2"), "out\n", 0},
		{"both streams", Command{Path: "/bin/sh", Args: []string{"-c", "echo out; echo err >&2"}, Limit: 100, WithStderr: true}, "out\nerr\n", 0},
		{"no input", shell("cat; echo end"), "end\n", 0},
		{"the given environment and no more", Command{Path: "/usr/bin/env", Env: []string{"A=1"}, Limit: 100}, "A=1\n", 0},
		{"the beginning of much", Command{Path: "/bin/sh", Args: []string{"-c", "echo start; yes | head -c 10000000"}, Env: []string{"PATH=/usr/bin:/bin"}, Limit: 5}, "start", 0},
		{"with a failure", shell("echo out; exit 3"), "out\n", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Output(t.Context(), tt.command)
			var exit *exec.ExitError
			status := 0
			if errors.As(err, &exit) {
				status = exit.ExitCode()
			}
			if got != tt.want || status != tt.status || status == 0 && err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if _, err := Output(t.Context(), Command{Path: "/no/such/program"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestOutputLeavesNothingOfTheGroup(t *testing.T) {
	out, err := Output(t.Context(), shell("sleep 1000 & echo $!"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	awaitDead(t, pid)
}

func TestOutputAsksAProgramToLeaveBeforeItIsKilled(t *testing.T) {
	for name, script := range map[string]string{
		"it leaves": `trap 'echo bye > "$0"; exit' TERM; echo ready > "$0.ready"; sleep 1000 & wait`,
		"it stays":  `trap 'echo bye > "$0"' TERM; echo ready > "$0.ready"; while :; do sleep 1000 & wait; done`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "said")
			c := shell(script)
			c.Args = append(c.Args, file)
			c.Grace = 200 * time.Millisecond
			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			done := make(chan error, 1)
			go func() {
				_, err := Output(ctx, c)
				done <- err
			}()
			awaitFile(t, file+".ready")
			cancel(enough)
			if err := receive(t, done); !errors.Is(err, enough) {
				t.Errorf("error %v", err)
			}
			if _, err := os.Stat(file); err != nil {
				t.Error("it was not asked to leave")
			}
		})
	}
}

// awaitFile waits until a file is there.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s does not appear", path)
		}
	}
}

func TestSelectTakesWhatIsNamed(t *testing.T) {
	base := []string{"HOME=/h", "LC_ALL=C", "API_KEY=x", "CLAUDECODE=1", "HOME=/last", "=C:=C:\\"}
	if got, want := Select(base, []string{"HOME", "LC_*", "CLAUDECODE"}), []string{"HOME=/last", "LC_ALL=C"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
