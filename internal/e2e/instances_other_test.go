//go:build !linux

package e2e

// confined is for Linux only.
func confined([]string) int { return 99 }
