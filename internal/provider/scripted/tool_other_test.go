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

func TestCommandsOfTheHostBlockAreRun(t *testing.T) {
	state := StateEnv + "=" + t.TempDir()
	c := inProcess(t, state, "COLOR=red").initialise()
	id := c.session()
	tool := hostTool{Name: "ui.paint", ReadSpecCommand: `echo "spec in $COLOR"`, CallCommand: `printf '%s\n' '<json_args>'`}
	broken := hostTool{Name: "broken", ReadSpecCommand: `echo no paint >&2; exit 3`, CallCommand: `sleep 3600 # '<json_args>'`}
	if got := c.say(id, instructing(tool, broken)+"cli-spec ui.paint"); got != "spec in red" {
		t.Errorf("said %q", got)
	}
	again := inProcess(t, state, "COLOR=blue").initialise()
	_, err := again.call("session/resume", object{"sessionId": id, "cwd": t.TempDir(), "mcpServers": []any{}})
	must(t, err)
	for script, want := range map[string]string{
		"cli-spec ui.paint":                             "spec in blue",
		`cli ui.paint {"text":"it's a \"test\" $HOME"}`: `{"text":"it's a \"test\" $HOME"}`,
		"cli-spec broken":                               "tool error: exit status 3: no paint",
		"cli-spec unknown":                              "tool error: the instructions tell no command for unknown",
	} {
		if got := again.say(id, script); got != want {
			t.Errorf("%q said %q, want %q", script, got, want)
		}
	}
	again.say(id, "cli-spec ui.paint")
	if got := again.shown(); len(got) != 3 || got[0] != `tool_call echo "spec in $COLOR" pending` || got[2] != "tool_call_update  completed" {
		t.Errorf("showed %q", got)
	}
	turn := again.startPrompt(id, "echo begun ; cli broken {}")
	again.until(4)
	again.notify("session/cancel", object{"sessionId": id})
	if o, err := again.finish(turn); err != nil || o.StopReason != "cancelled" {
		t.Errorf("%+v, %v", o, err)
	}
}
