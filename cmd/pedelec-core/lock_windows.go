package main

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// openNoLink is nothing here: making a link takes more rights than the folder's.
const openNoLink = 0

// inTheWay reports whether the lock's file cannot be opened for what stands there: a
// folder, or a file that we may not open.
func inTheWay(err error) bool { return errors.Is(err, fs.ErrPermission) }

// cannotLock reports whether a file system has no locks to give.
func cannotLock(err error) bool { return errors.Is(err, windows.ERROR_INVALID_FUNCTION) }

// tryLock takes an exclusive lock or returns errLockHeld.
func tryLock(f *os.File) error {
	const wholeFile = ^uint32(0)
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, wholeFile, wholeFile, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLockHeld
	}
	return err
}
