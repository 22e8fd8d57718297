//go:build !windows

package workspace

import (
	"errors"
	"os"
	"syscall"
)

// syncDir forces a directory's entries to disk. Some file systems, such as
// network and FUSE ones, do not offer it; they say EINVAL or ENOTSUP.
func syncDir(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
