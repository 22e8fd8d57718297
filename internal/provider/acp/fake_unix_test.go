//go:build !windows

package acp

import (
	"os/exec"
	"os/signal"
	"syscall"
)

func ignoreTerm() { signal.Ignore(syscall.SIGTERM) }

// spawnSleeper leaves a child that holds our output open.
func spawnSleeper() {
	cmd := exec.Command("sleep", "1000")
	_ = cmd.Start()
}
