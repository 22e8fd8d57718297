//go:build !windows

package workspace

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// writable asks the system whether this process may write into a folder; a file
// system that is mounted read-only says no, too.
func writable(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	err = unix.Faccessat(int(f.Fd()), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	return errors.Join(err, f.Close())
}
