//go:build !windows

package assets

import (
	"errors"
	"syscall"
)

// isNoSpace reports whether the system said that the disk or the quota is full.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
