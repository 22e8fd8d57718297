//go:build !windows

package scripted

import (
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
)

func startOwnSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killOwnSession ends a tool that was started so, with what it started itself.
func killOwnSession(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// shell returns how a line is run in the system's shell.
func shell(line string) (program string, args []string) { return "/bin/sh", []string{"-c", line} }

func ignoreTermination() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) }

// killSelf dies the way a crash looks from outside.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

func userName() string { return strconv.Itoa(os.Getuid()) }

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid() && info.Mode().Perm()&0o022 == 0
}
