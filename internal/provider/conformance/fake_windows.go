package conformance

import "os/exec"

// detach has nothing to do: there are no sessions of this kind.
func detach(*exec.Cmd) {}

// ignoreTerm has nothing to ignore: Windows has no such signal.
func ignoreTerm() {}

// isRunning is told by the lock file alone there.
func isRunning(int) bool { return false }
