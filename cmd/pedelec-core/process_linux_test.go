package main

import (
	"os/exec"
	"testing"
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
