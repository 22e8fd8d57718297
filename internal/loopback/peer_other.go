//go:build !linux

package loopback

// NewPeerCheck returns a check that cannot tell: this system has no interface
// for it that is exact.
func NewPeerCheck() PeerCheck { return unchecked{} }
