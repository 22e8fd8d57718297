//go:build !linux

package e2e

// agents cannot be told on this system: environments of other processes are not
// readable. Tests that need them skip.
func agents(string) []int { return nil }

func agentIDs(string) map[int]string { return nil }

func zombies(int) []int { return nil }

func killOrphans(string) {}

// holds cannot be told on this system, either.
func holds(int, string) bool { return false }
