package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxEnviron bounds what is read of a process's environment; the kernel's
	// own limit for arguments and environment together is 6 MiB by default.
	maxEnviron = 8 << 20

	// deathWait bounds the wait for killed processes to be gone.
	deathWait = 500 * time.Millisecond

	// execWait bounds, for all processes of a round together, the wait for those
	// that are in the midst of an exec; a busy machine may stop one there.
	execWait = 500 * time.Millisecond
	execLook = time.Millisecond // between two looks at one
)

// spawnAttr: the session is also a group; the parent-death signal is sent when
// the starting thread ends, hence the one spawner thread.
func spawnAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// waitExit returns when the process has exited, and leaves it to be reaped.
func waitExit(p *os.Process) error {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// bootID tells boots apart; "" when the system does not.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// startTime returns when a process started, in clock ticks since boot.
func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	return parseStartTime(stat)
}

// parseStartTime reads field 22 of /proc/<pid>/stat. The second field is the
// program's name in parentheses, which may itself hold spaces and parentheses.
func parseStartTime(stat []byte) (uint64, error) {
	const fieldsAfterName = 22 - 3
	i := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[i+1:])
	if i < 0 || len(fields) <= fieldsAfterName {
		return 0, fmt.Errorf("process status %q has no start time", stat)
	}
	return strconv.ParseUint(string(fields[fieldsAfterName]), 10, 64)
}

// residentBytes returns a process's resident memory; 0 = unknown.
func residentBytes(pid int) int64 {
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// killRound kills every process of our user that is wanted, except ourselves, and
// waits a moment until they are gone. It returns how many it killed. A process
// that forks meanwhile may leave a child for the next round.
func killRound(wanted targets) (int, error) {
	names, err := readNames("/proc")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	var (
		scan   = newScanner(wanted)
		killed []unix.PollFd
		count  int
		failed error
	)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() || !scan.isTarget(pid) {
			continue
		}
		fd, err := scan.kill(pid)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("kill process %d: %w", pid, err))
			continue
		}
		count++
		if fd >= 0 {
			killed = append(killed, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	awaitDeath(killed)
	return count, failed
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

type scanner struct {
	wanted   targets
	buf      []byte
	execLeft time.Duration // of execWait

	environ func(pid int) (environ []byte, ok bool) // s.readEnviron, but for tests
	inExec  func(pid int) bool                      // isInExec, likewise
}

func newScanner(wanted targets) *scanner {
	s := &scanner{wanted: wanted, buf: make([]byte, 16<<10), execLeft: execWait, inExec: isInExec}
	s.environ = s.readEnviron
	return s
}

// isTarget reports whether a process is our user's and wanted. It answers false
// for what it may not or can no longer see.
func (s *scanner) isTarget(pid int) bool {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(pid), &stat); err != nil || int(stat.Uid) != os.Getuid() {
		return false
	}
	if group, err := unix.Getpgid(pid); err == nil && s.wanted.groups[group] {
		return true
	}
	for {
		environ, ok := s.environ(pid)
		if !ok || len(environ) > 0 {
			return carriesID(environ, s.wanted.ids)
		}
		// A tool that an agent started as it died has lost the agent's memory, and
		// its own is not filled yet: who does not wait lets it escape for good.
		if s.execLeft <= 0 || !s.inExec(pid) {
			return false
		}
		time.Sleep(execLook)
		s.execLeft -= execLook
	}
}

// readEnviron returns what the system shows of a process's environment, valid until
// the next call; ok is false when it shows none.
func (s *scanner) readEnviron(pid int) (environ []byte, ok bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	size := 0
	for {
		n, err := unix.Read(fd, s.buf[size:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		if size += n; size == len(s.buf) {
			if size >= maxEnviron {
				break
			}
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
	}
	return s.buf[:size], true
}

// isInExec reports whether a process is replacing its program: the new one has no
// environment yet.
func isInExec(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && lacksEnviron(stat)
}

// lacksEnviron reports whether the process of a /proc/<pid>/stat lives, is no thread
// of the kernel, and has no place for an environment, be it an empty one.
func lacksEnviron(stat []byte) bool {
	const (
		behindName           = 3 // number of the first field there
		state, flags, envEnd = 0, 9 - behindName, 51 - behindName
		kernelThread         = 0x00200000 // PF_KTHREAD
	)
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= envEnd || bytes.ContainsAny(fields[state], "ZX") {
		return false
	}
	bits, err := strconv.ParseUint(string(fields[flags]), 10, 64)
	return err == nil && bits&kernelThread == 0 && string(fields[envEnd]) == "0"
}

// kill ends a process through a handle that cannot come to mean another one:
// it is taken first, and the process looked at once more behind it. It returns the
// handle, or -1 when there is nothing to wait for.
func (s *scanner) kill(pid int) (handle int, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, nil
	}
	if err != nil { // a kernel before 5.3, or no free descriptor
		return -1, ignoreGone(unix.Kill(pid, unix.SIGKILL))
	}
	if !s.isTarget(pid) {
		unix.Close(fd)
		return -1, nil
	}
	if err := ignoreGone(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// awaitDeath waits until the processes behind the handles are dead, and closes
// the handles.
func awaitDeath(handles []unix.PollFd) {
	deadline := time.Now().Add(deathWait)
	for _, handle := range handles {
		one := []unix.PollFd{handle}
		for {
			left := time.Until(deadline)
			_, err := unix.Poll(one, int(max(left, 0).Milliseconds()))
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		unix.Close(int(handle.Fd))
	}
}
