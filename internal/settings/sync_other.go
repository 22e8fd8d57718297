//go:build !windows

package settings

import (
	"errors"
	"os"
	"syscall"
)

// syncDir forces a directory's entries to disk. Some file systems do not offer
// it; they say EINVAL or ENOTSUP.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
