package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestPollGoneSeesAZombieAsGone(t *testing.T) {
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pollGone(t.Context(), child.Process.Pid, gonePoll) // nobody has waited for the child yet
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	waitGone(t.Context(), child.Process.Pid)
}

func TestTheWatchOfAParentDoesNotHoldUpAStop(t *testing.T) {
	quickest := parentPoll
	for range 4 { // a busy machine may be slow once
		ctx, stop := context.WithCancel(t.Context())
		told := make(chan time.Time, 1)
		time.AfterFunc(parentPoll/20, func() { // the watch has begun
			told <- time.Now()
			stop()
		})
		waitGone(ctx, os.Getpid())
		quickest = min(quickest, time.Since(<-told))
	}
	if quickest > parentPoll/2 {
		t.Errorf("it took %v at best", quickest)
	}
}
