//go:build !windows

package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// writable asks the system whether this process may write into a folder; a file
// system that is mounted read-only says no, too. It asks by the folder's name: the
// answer only lets a resume fail early, and nothing is written on the strength of it.
func writable(dir *os.Root) error {
	return unix.Faccessat(unix.AT_FDCWD, dir.Name(), unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
