package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// agents returns the processes that a daemon with this home started, directly or
// through them: they carry a runtime id and the path of its runtime file.
func agents(home string) []int {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var pids []int
	for _, path := range entries {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, []byte("PEDELEC_RUNTIME=")) || !bytes.Contains(env, []byte(home+"/")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != os.Getpid() && !isZombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isZombie reports whether the process is dead and only waits to be reaped.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return len(after) > 1 && (after[1] == 'Z' || after[1] == 'X')
}

// killOrphans ends what a killed daemon left.
func killOrphans(home string) {
	for _, pid := range agents(home) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone already
	}
}

// holds reports whether a process has a file of this name open.
func holds(pid int, name string) bool {
	links, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	if err != nil {
		return false
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && filepath.Base(target) == name {
			return true
		}
	}
	return false
}
