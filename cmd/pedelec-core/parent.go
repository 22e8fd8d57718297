package main

import (
	"context"
	"time"
)

// parentPoll is how often --parent-pid looks whether that process lives, where
// the system cannot tell by itself.
const parentPoll = 500 * time.Millisecond

// pollGone is waitGone by asking again and again.
func pollGone(ctx context.Context, pid int, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for alive(pid) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
