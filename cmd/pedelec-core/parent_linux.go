package main

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// waitGone returns when the process is gone, or at once when ctx is done: a daemon
// that is told to leave must not seem to serve for any longer. It holds on to the
// process itself, so that a reused number does not deceive it.
func waitGone(ctx context.Context, pid int) {
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		pollGone(ctx, pid, parentPoll) // a kernel without pidfd, or a sandbox that forbids it
		return
	}
	defer unix.Close(process)
	wake, closed, err := os.Pipe()
	if err != nil {
		pollGone(ctx, pid, parentPoll)
		return
	}
	defer wake.Close()
	defer closed.Close()
	defer context.AfterFunc(ctx, func() { closed.Close() })()
	if !awaitEither(process, int(wake.Fd())) {
		pollGone(ctx, pid, parentPoll)
	}
}

// awaitEither waits until one of two file descriptors has something to tell, and
// reports whether that could be waited for.
func awaitEither(a, b int) bool {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(a), Events: unix.POLLIN}, {Fd: int32(b), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
