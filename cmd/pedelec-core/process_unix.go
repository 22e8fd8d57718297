//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
)

// alive reports whether a process of this number exists and has not ended.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	if err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	return !isZombie(pid)
}

// connRefused is the error of a connect where nobody listens.
const connRefused = syscall.ECONNREFUSED

// isZombie reports whether a process has ended and only its parent has not
// noticed. Where there is no /proc, nobody can tell.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	name := bytes.LastIndexByte(stat, ')') // the name may hold brackets too
	if name < 0 || name+2 >= len(stat) {
		return false
	}
	state := stat[name+2]
	return state == 'Z' || state == 'X'
}

// ignoreHangUp makes the process survive the end of its terminal.
func ignoreHangUp() { signal.Ignore(syscall.SIGHUP) }

// leaveTerminal makes the daemon independent of the session that started it, and of
// signals to its process group. The leader of a process group cannot leave its
// session; it ignores the hang-up all the same.
func leaveTerminal() { _, _ = syscall.Setsid() }

// outliveReaders keeps the daemon alive when whoever reads what it prints has gone:
// a write to a broken pipe of ours would end it. Agents start with the system's
// own way, as they would not if the signal were ignored.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// ownGroup makes a child the leader of a process group, so that Ctrl-C at the
// terminal does not reach it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// shellCommand runs a command line in the shell. When ctx ends, all that it
// started ends with it.
func shellCommand(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	ownGroup(cmd)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
