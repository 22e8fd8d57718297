package e2e

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of times in /proc: 100 a second on every Linux.
const clockTick = 10 * time.Millisecond

// cpuTime is how long a process has used processors, if the system tells.
func cpuTime(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// Behind the name, which may hold anything: state is the first, user and system
	// time the 12th and 13th.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.Atoi(string(fields[11]))
	system, err2 := strconv.Atoi(string(fields[12]))
	return time.Duration(user+system) * clockTick, err1 == nil && err2 == nil
}
