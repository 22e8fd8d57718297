package e2e

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// refuseLocks makes flock and the locks of fcntl fail in this thread and in what
// it becomes.
func refuseLocks(errno uint32) error {
	const (
		nr       = 0  // offset of the system call's number in seccomp_data
		command  = 24 // of the low half of its second argument
		load     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		ifEqual  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		giveBack = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: load, K: nr},
		{Code: ifEqual, K: unix.SYS_FLOCK, Jt: 7},
		{Code: ifEqual, K: unix.SYS_FCNTL, Jf: 5},
		{Code: load, K: command},
		{Code: ifEqual, K: unix.F_SETLK, Jt: 4},
		{Code: ifEqual, K: unix.F_SETLKW, Jt: 3},
		{Code: ifEqual, K: unix.F_OFD_SETLK, Jt: 2},
		{Code: ifEqual, K: unix.F_OFD_SETLKW, Jt: 1},
		{Code: giveBack, K: unix.SECCOMP_RET_ALLOW},
		{Code: giveBack, K: unix.SECCOMP_RET_ERRNO | errno},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return setFilter(filter)
}

// setFilter makes the kernel ask a filter before each system call of this thread.
func setFilter(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
