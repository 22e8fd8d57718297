//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openNoLink makes an open fail on a symbolic link: its target may be somebody's.
const openNoLink = unix.O_NOFOLLOW

// inTheWay reports whether the lock's file cannot be opened for what stands there: a
// link, a folder, something that is no file, or a file that we may not open.
func inTheWay(err error) bool {
	for _, kind := range []error{unix.ELOOP, unix.EISDIR, unix.ENXIO, fs.ErrPermission} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// tryLock takes an exclusive lock or returns errLockHeld.
func tryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return errLockHeld // or as good as that: it is tried again
	}
	return err
}

// cannotLock reports whether a file system has no locks to give.
func cannotLock(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}
