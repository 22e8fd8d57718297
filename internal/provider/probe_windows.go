package provider

import (
	"os/exec"
	"syscall"
)

// createNoWindow keeps a console from flashing up.
const createNoWindow = 0x08000000

func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: createNoWindow}
}

// killGroup reaches the probe itself only; what it started belongs to the
// daemon's Job and ends with the daemon.
func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// endGroup kills: there is no gentler way without a console.
func endGroup(cmd *exec.Cmd) error { return killGroup(cmd) }
