//go:build !linux

package e2e

// enterNamespace does nothing: only Linux can cut a test off the network.
func enterNamespace() bool { return false }

// offline reports whether the test has no network but loopback.
func offline() bool { return false }
