package store

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// isNoSpace reports whether the system said that the disk or the quota is full.
func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

func isNoMemory(err error) bool { return errors.Is(err, windows.ERROR_NOT_ENOUGH_MEMORY) }

// freeSpace returns the bytes that are free for us where a file lies.
func freeSpace(path string) (bytes int64, known bool) {
	dir, err := windows.UTF16PtrFromString(filepath.Dir(path))
	if err != nil {
		return 0, false
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(dir, &free, nil, nil); err != nil {
		return 0, false
	}
	return int64(free), true
}

// syncDir does nothing: Windows has no way to sync a folder, and journals
// renames by itself.
func syncDir(string) error { return nil }

// release closes a file that stays mapped, which gives its lock back.
func release(f *os.File) error { return f.Close() }

// initialMmap is 0: on Windows a mapping makes the file as large at once.
func initialMmap(int64) int { return 0 }
