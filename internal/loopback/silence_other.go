//go:build !linux

package loopback

import (
	"syscall"
	"time"
)

// boundSilence leaves it to the system how long it repeats what is not confirmed.
func boundSilence(syscall.RawConn, time.Duration) error { return nil }
