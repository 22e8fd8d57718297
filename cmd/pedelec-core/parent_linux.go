package main

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// waitGone returns when the process is gone or ctx is done. It holds on to the
// process itself, so that a reused number does not deceive it.
func waitGone(ctx context.Context, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		pollGone(ctx, pid, parentPoll) // a kernel without pidfd, or a sandbox that forbids it
		return
	}
	defer unix.Close(fd)
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(parentPoll.Milliseconds()))
		if n > 0 {
			return
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			pollGone(ctx, pid, parentPoll)
			return
		}
	}
}
