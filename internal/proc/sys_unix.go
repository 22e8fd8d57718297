//go:build linux || darwin

package proc

import (
	"errors"
	"fmt"
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

// killRecorded kills the group of a process that an earlier instance recorded,
// if that process is still the one that was recorded.
func killRecorded(e Entry) error {
	if !sameProcess(e) {
		return nil
	}
	if group, err := unix.Getpgid(e.PID); err != nil || group != e.PID {
		return nil
	}
	if err := unix.Kill(-e.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill group %d: %w", e.PID, err)
	}
	return nil
}

// sameProcess reports whether an entry's process lives: its pid has the start
// time and stands in the boot that were recorded with it.
func sameProcess(e Entry) bool {
	if e.PID <= 1 || e.PID == os.Getpid() || e.StartTime == 0 || e.BootID == "" || e.BootID != bootID() {
		return false
	}
	started, err := startTime(e.PID)
	return err == nil && started == e.StartTime
}

func enterJob() error { return nil }
