//go:build !linux && !windows

package provider

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a probe into a group of its own.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
