//go:build linux || darwin

package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// kin is what the system knows of a runtime's descendants: here its group,
// which has the number of the process that leads it. It may be signalled only
// while the leader is not reaped, since after that the number may be another's.
type kin struct{ group int }

// terminate asks the group to leave.
func (k *kin) terminate() { _ = unix.Kill(-k.group, unix.SIGTERM) }

// kill ends the group.
func (k *kin) kill() { _ = unix.Kill(-k.group, unix.SIGKILL) }

func (k *kin) close() {}

// spawn starts a program as the leader of a session of its own, and so of a
// group of its own, with no terminal that it could ask.
func spawn(path string, args []string, attr *os.ProcAttr) (*os.Process, *kin, error) {
	attr.Sys = spawnAttr()
	process, err := os.StartProcess(path, append([]string{path}, args...), attr)
	if err != nil {
		return nil, nil, err
	}
	return process, &kin{group: process.Pid}, nil
}

// isRecorded reports whether an entry's process lives and leads its group: its
// pid has the start time and stands in the boot that were recorded with it.
func isRecorded(e Entry) bool {
	if e.PID <= 1 || e.PID == os.Getpid() || e.StartTime == 0 || e.BootID == "" || e.BootID != bootID() {
		return false
	}
	started, err := startTime(e.PID)
	if err != nil || started != e.StartTime {
		return false
	}
	group, err := unix.Getpgid(e.PID)
	return err == nil && group == e.PID
}

func enterJob() error { return nil }
