//go:build unix

package store

import (
	"errors"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// isNoSpace reports whether the system said that the disk or the quota is full.
func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func isNoMemory(err error) bool { return errors.Is(err, unix.ENOMEM) }

// freeSpace returns the bytes that are free for us where a file lies.
func freeSpace(path string) (bytes int64, known bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}

// syncDir makes a rename in a folder durable. Some file systems do not offer it; they
// say EINVAL or ENOTSUP.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// release closes a file that stays mapped: the mapping would keep its lock.
func release(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// initialMmap is how much address space is mapped at once, so that the file can
// grow without waiting for readers.
func initialMmap(limit int64) int { return int(min(limit, math.MaxInt/2)) }
