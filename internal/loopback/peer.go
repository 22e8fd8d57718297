package loopback

import (
	"errors"
	"net"
)

// PeerCheck tells whether a TCP connection on loopback comes from our own user.
type PeerCheck interface {
	// Check returns nil when the peer's user is ours or root, or when the
	// system cannot tell. It is to be called once for each accepted connection,
	// before anything is read; on an error the connection is to be closed.
	Check(conn net.Conn) error
	// Supported reports whether the system can tell, as far as is known. While it
	// could not be found out, connections are refused.
	Supported() bool
}

// ErrForeignPeer means that another user, or nobody any more, stands behind a
// connection.
var ErrForeignPeer = errors.New("the peer is not our user")

// unchecked is the PeerCheck of a system that cannot tell.
type unchecked struct{}

func (unchecked) Check(net.Conn) error { return nil }
func (unchecked) Supported() bool      { return false }
