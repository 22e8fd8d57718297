package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spawnAttr: the session is also a group. macOS has no parent-death signal; what
// a crash of the daemon leaves is found by the sweep.
func spawnAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

// waitExit returns when the process has exited, and leaves it to be reaped.
func waitExit(p *os.Process) error {
	const (
		idTypePID = 1    // P_PID of <sys/wait.h>
		exited    = 0x04 // WEXITED
		noWait    = 0x20 // WNOWAIT
	)
	var info [128]byte // room for siginfo_t, which nobody reads
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePID, uintptr(p.Pid),
			uintptr(unsafe.Pointer(&info[0])), exited|noWait, 0, 0)
		if errno == 0 {
			return nil
		}
		if errno != syscall.EINTR {
			return errno
		}
	}
}

// bootID tells boots apart; "" when the system does not.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}

// startTime returns when a process started, in microseconds since 1970.
func startTime(pid int) (uint64, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, err
	}
	if int(info.Proc.P_pid) != pid {
		return 0, unix.ESRCH
	}
	started := info.Proc.P_starttime
	return uint64(started.Sec)*1e6 + uint64(started.Usec), nil
}

// residentBytes is not told without cgo; 0 = unknown.
func residentBytes(int) int64 { return 0 }

// killRound kills every process of our user that is wanted, except ourselves, and
// returns how many. macOS hides the environment of programs under system
// protection, so this finds most and not all.
func killRound(wanted targets) (int, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Getuid())
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	count := 0
	var failed error
	for _, info := range list {
		pid := int(info.Proc.P_pid)
		if pid <= 1 || pid == os.Getpid() {
			continue
		}
		if !wanted.groups[int(info.Eproc.Pgid)] {
			args, err := unix.SysctlRaw("kern.procargs2", pid)
			if err != nil || !carriesID(args, wanted.ids) {
				continue
			}
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			failed = errors.Join(failed, fmt.Errorf("kill process %d: %w", pid, err))
			continue
		}
		count++
	}
	return count, failed
}
