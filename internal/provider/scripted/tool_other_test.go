//go:build !windows

package scripted

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

// gone waits until a process that is no child of ours has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("process %d does not end", pid)
		}
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestToolsOutliveTheAgentWhereTheyWereStarted(t *testing.T) {
	c := startChild(t)
	c.initialise()
	id := c.session()
	grandchild := pidIn(t, c.say(id, "grandchild"))
	detached := pidIn(t, c.say(id, "detached"))
	defer func() {
		_ = syscall.Kill(grandchild, syscall.SIGKILL)
		_ = syscall.Kill(detached, syscall.SIGKILL)
	}()
	agentGroup, err := syscall.Getpgid(c.cmd.Process.Pid)
	must(t, err)
	group, err := syscall.Getpgid(grandchild)
	must(t, err)
	ownGroup, err := syscall.Getpgid(detached)
	must(t, err)
	if group != agentGroup || ownGroup != detached {
		t.Errorf("groups: agent %d, grandchild %d, detached %d (pid %d)", agentGroup, group, ownGroup, detached)
	}
	must(t, c.in.Close())
	if status := c.exit(); status != exitDone {
		t.Errorf("status %d", status)
	}
	if !alive(grandchild) || !alive(detached) {
		t.Error("a tool ended with the agent")
	}
	// The grandchild keeps the output open until it is told to end.
	must(t, syscall.Kill(grandchild, syscall.SIGTERM))
	for range c.frames {
	}
	must(t, syscall.Kill(detached, syscall.SIGTERM))
}

func TestIgnoreTermLeavesOnlyKill(t *testing.T) {
	c := startChild(t)
	c.initialise()
	id := c.session()
	c.say(id, "ignore-term")
	tool := pidIn(t, c.say(id, "grandchild"))
	defer func() { _ = syscall.Kill(tool, syscall.SIGKILL) }()
	must(t, c.cmd.Process.Signal(syscall.SIGTERM))
	must(t, c.cmd.Process.Signal(os.Interrupt))
	if got := c.say(id, "hello"); got != "hello" {
		t.Errorf("said %q", got)
	}
	must(t, c.in.Close())
	must(t, c.cmd.Process.Signal(syscall.SIGTERM))
	if !alive(c.cmd.Process.Pid) {
		t.Error("the agent is gone")
	}
	must(t, c.cmd.Process.Kill())
	c.exit()
	must(t, syscall.Kill(tool, syscall.SIGKILL))
}

func TestTermEndsTheAgent(t *testing.T) {
	c := startChild(t)
	c.initialise()
	c.startPrompt(c.session(), "echo begun ; hang-hard")
	c.until(1)
	must(t, c.cmd.Process.Signal(syscall.SIGTERM))
	c.exit()
	gone(t, c.cmd.Process.Pid)
}
