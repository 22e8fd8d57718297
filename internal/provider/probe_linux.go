package provider

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a probe into a group of its own, and has it killed when the
// daemon dies: more exactly, when the thread dies that starts it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
