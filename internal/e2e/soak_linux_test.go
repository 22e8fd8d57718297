package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// childrenOf counts the children of a process, and those of them that are dead and
// not reaped.
func childrenOf(pid int) (children, zombies int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, 0, err
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // gone
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent, …
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		children++
		if fields[0] == "Z" {
			zombies++
		}
	}
	return children, zombies, nil
}

// residentMemory is the memory of a process that no file backs.
func residentMemory(pid int) (int64, error) { return anonymousMemory(pid) }
