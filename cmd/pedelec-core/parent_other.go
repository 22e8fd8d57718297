//go:build !linux

package main

import "context"

// waitGone returns when the process is gone or ctx is done.
func waitGone(ctx context.Context, pid int) { pollGone(ctx, pid, parentPoll) }
