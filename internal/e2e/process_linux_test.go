package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// agents returns the processes that a daemon with this home started, directly or
// through them: they carry a runtime id and the path of its runtime file.
func agents(home string) []int {
	var pids []int
	for pid := range agentIDs(home) {
		pids = append(pids, pid)
	}
	return pids
}

// agentIDs returns the same processes with the id of the runtime to which each
// belongs.
func agentIDs(home string) map[int]string {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	ids := map[int]string{}
	for _, path := range entries {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, []byte(home+"/")) {
			continue
		}
		_, rest, found := bytes.Cut(env, []byte("PEDELEC_RUNTIME="))
		if !found {
			continue
		}
		id, _, _ := bytes.Cut(rest, []byte{0})
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != os.Getpid() && !isZombie(pid) {
			ids[pid] = string(id)
		}
	}
	return ids
}

// zombies returns the children of a process that are dead and not reaped.
func zombies(parent int) []int {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		return nil
	}
	var dead []int
	for _, path := range lists {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // the thread is gone
		}
		for _, word := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(word); err == nil && isZombie(pid) {
				dead = append(dead, pid)
			}
		}
	}
	return dead
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
