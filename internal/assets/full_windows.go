package assets

import (
	"errors"

	"golang.org/x/sys/windows"
)

// isNoSpace reports whether the system said that the disk or the quota is full.
func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}
