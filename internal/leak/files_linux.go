package leak

import (
	"os"
	"strings"
)

// openFiles returns what each file descriptor of this process stands for.
func openFiles() (files []string) {
	const folder = "/proc/self/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil // no /proc: nothing is known, before and after
	}
	for _, entry := range entries {
		name, err := os.Readlink(folder + "/" + entry.Name())
		if err != nil || isRuntimes(name) {
			continue // that of ReadDir is closed by now
		}
		files = append(files, name)
	}
	return files
}

// isRuntimes reports whether a file is one that Go's runtime opens at the first use of
// a connection or pipe, and keeps.
func isRuntimes(name string) bool {
	return strings.HasPrefix(name, "anon_inode:[event") // eventpoll, eventfd
}
