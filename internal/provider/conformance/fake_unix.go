//go:build !windows

package conformance

import (
	"os/exec"
	"os/signal"
	"syscall"
)

func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func ignoreTerm() { signal.Ignore(syscall.SIGTERM) }

// isRunning reports whether a process exists.
func isRunning(pid int) bool { return syscall.Kill(pid, 0) == nil }
