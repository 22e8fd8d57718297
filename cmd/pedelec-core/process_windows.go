package main

import (
	"context"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// alive reports whether a process of this number exists and has not ended.
func alive(pid int) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	event, err := windows.WaitForSingleObject(h, 0)
	return err == nil && event == uint32(windows.WAIT_TIMEOUT)
}

// connRefused is the error of a connect where nobody listens.
const connRefused = windows.WSAECONNREFUSED

// ignoreHangUp does nothing: what ends with a console is told by no signal here.
func ignoreHangUp() {}

// outliveReaders does nothing: a broken pipe is only an error here.
func outliveReaders() {}

// leaveTerminal makes the daemon independent of the console that started it.
func leaveTerminal() {
	_, _, _ = windows.NewLazySystemDLL("kernel32.dll").NewProc("FreeConsole").Call()
}

// ownGroup makes a child the root of a process group, so that Ctrl-C at the
// console does not reach it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// shellCommand runs a command line in the shell, which reads it as it stands.
func shellCommand(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd")
	ownGroup(cmd)
	cmd.SysProcAttr.CmdLine = `cmd /S /C "` + line + `"`
	return cmd
}
