package scripted

import (
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// detachedProcess is DETACHED_PROCESS of the Windows API: no console.
const detachedProcess = 0x8

// startOwnSession takes the tool out of the agent's console and process group,
// the nearest that Windows has. A job object still holds it.
func startOwnSession(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP}
}

// killOwnSession ends a tool that was started so.
func killOwnSession(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// shell returns how a line is run in the shell that is always there.
func shell(line string) (program string, args []string) {
	return "powershell.exe", []string{"-NoProfile", "-NonInteractive", "-Command", "& " + line}
}

// crashStatus is what a shell shows of a process killed by kill -9.
const crashStatus = 137

func ignoreTermination() { signal.Ignore(os.Interrupt) }

// killSelf leaves without any of the process's own clean-up.
func killSelf() {
	self, err := syscall.GetCurrentProcess()
	if err == nil {
		err = syscall.TerminateProcess(self, crashStatus)
	}
	if err != nil {
		os.Exit(crashStatus)
	}
}

// userName is empty: the temporary folder is a user's own already.
func userName() string { return "" }

func ownedByUs(fs.FileInfo) bool { return true }
