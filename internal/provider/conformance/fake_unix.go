//go:build !windows

package conformance

import (
	"os/signal"
	"syscall"
)

func ignoreTerm() { signal.Ignore(syscall.SIGTERM) }

// isRunning reports whether a process exists.
func isRunning(pid int) bool { return syscall.Kill(pid, 0) == nil }
