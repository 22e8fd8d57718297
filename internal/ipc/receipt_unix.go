//go:build !windows

package ipc

import "golang.org/x/sys/unix"

func peekSocket(fd uintptr) peeked {
	var one [1]byte
	n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch {
	case err != nil:
		return peekedNothing
	case n > 0:
		return peekedMore
	}
	return peekedEnd
}
