package loopback

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The layout of struct inet_diag_req_v2 and struct inet_diag_msg, from
// <linux/inet_diag.h>. Both hold the addresses as struct inet_diag_sockid:
// ports and addresses in network order, then interface and cookie.
const (
	diagRequestSize = 56
	diagAnswerSize  = 72

	sockIDInRequest = 8
	sockIDInAnswer  = 4
	sockIDSport     = 0
	sockIDDport     = 2
	sockIDSrc       = 4
	sockIDDst       = 20
	sockIDCookie    = 40

	answerState = 1
	answerUID   = 64
	answerInode = 68

	stateListen = 10 // TCP_LISTEN
	anyState    = 0xffffffff
	anyCookie   = 0xffffffff // INET_DIAG_NOCOOKIE, twice
)

// diagTimeout bounds the wait for the kernel, which answers at once.
const diagTimeout = time.Second

// ability is what is known of whether the kernel tells who owns a socket.
type ability uint32

const (
	untried ability = iota // it could not be asked yet
	able
	unable
)

// errPassing marks what says nothing about the kernel's ability.
var errPassing = errors.New("the system could not be asked")

// sockDiag asks the kernel for the one socket at the other end of a
// connection. Looking through a list of sockets instead would miss those that
// are closed in between and IPv4 connections of IPv6 sockets.
type sockDiag struct {
	uid         uint32
	find        func(local, remote netip.AddrPort) (socketOwner, error)
	unsupported func()
	ability     atomic.Uint32
}

// NewPeerCheck returns a check that was tried on a connection of our own. Where
// that failed for a reason that passes, such as too few file descriptors,
// connections are refused until a later try succeeds. unsupported, if not nil, is
// called once when it is clear that the system cannot tell: other users of this
// machine are kept out by the token alone then, and the operator has to know.
func NewPeerCheck(unsupported func()) PeerCheck {
	check := &sockDiag{uid: uint32(os.Geteuid()), find: findSocket, unsupported: unsupported}
	_ = check.tried() // what could not be found out now is found out later
	return check
}

// Supported reports whether the kernel tells, as far as is known.
func (c *sockDiag) Supported() bool { return ability(c.ability.Load()) != unable }

// Check asks once. A socket that its process has closed has the inode 0: nobody
// answers for what it sent.
func (c *sockDiag) Check(conn net.Conn) error {
	local, remote, err := ends(conn)
	if err != nil {
		return err
	}
	if err := c.tried(); err != nil {
		return fmt.Errorf("%w: %w", ErrForeignPeer, err)
	}
	if !c.Supported() {
		return nil
	}
	owner, err := c.find(remote, local)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForeignPeer, err)
	}
	if owner.inode == 0 {
		return fmt.Errorf("%w: its process has closed it", ErrForeignPeer)
	}
	if owner.uid != c.uid && owner.uid != 0 {
		return fmt.Errorf("%w: it belongs to uid %d", ErrForeignPeer, owner.uid)
	}
	return nil
}

// tried finds out whether the kernel tells, unless that is known. Its error is
// [errPassing]. Several callers may find it out at the same time.
func (c *sockDiag) tried() error {
	if ability(c.ability.Load()) != untried {
		return nil
	}
	found := able
	if err := c.try(); errors.Is(err, errPassing) {
		return err
	} else if err != nil {
		found = unable
	}
	first := c.ability.CompareAndSwap(uint32(untried), uint32(found))
	if first && found == unable && c.unsupported != nil {
		c.unsupported()
	}
	return nil
}

// try checks a connection to ourselves. While that lives, an answer other than
// our own user means that the kernel cannot tell.
func (c *sockDiag) try() error {
	ctx, cancel := context.WithTimeout(context.Background(), diagTimeout)
	defer cancel()
	l, err := Listen(ctx, net.JoinHostPort(Host, "0"), Options{})
	if err != nil {
		return fmt.Errorf("%w: %w", errPassing, err)
	}
	defer l.Close()
	var dialer net.Dialer
	client, err := dialer.DialContext(ctx, "tcp4", l.Addr().String())
	if err != nil {
		return fmt.Errorf("%w: %w", errPassing, err)
	}
	defer client.Close()
	owner, err := c.find(client.LocalAddr().(*net.TCPAddr).AddrPort(), client.RemoteAddr().(*net.TCPAddr).AddrPort())
	if isPassing(err) {
		return fmt.Errorf("%w: %w", errPassing, err)
	}
	if err != nil {
		return err
	}
	if owner.inode == 0 || owner.uid != c.uid {
		return fmt.Errorf("our own connection is reported as inode %d of uid %d", owner.inode, owner.uid)
	}
	return nil
}

// isPassing reports whether asking the kernel failed for want of something that
// may be there later; EAGAIN is an answer that took longer than diagTimeout.
func isPassing(err error) bool {
	for _, passing := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EAGAIN, unix.EBUSY} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// ends returns the two addresses of a connection.
func ends(conn net.Conn) (local, remote netip.AddrPort, err error) {
	l, okL := conn.LocalAddr().(*net.TCPAddr)
	r, okR := conn.RemoteAddr().(*net.TCPAddr)
	if !okL || !okR {
		return local, remote, fmt.Errorf("%w: not a TCP connection", ErrForeignPeer)
	}
	return unmap(l.AddrPort()), unmap(r.AddrPort()), nil
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

type socketOwner struct{ uid, inode uint32 }

// findSocket returns the owner of the TCP socket with exactly these two ends.
func findSocket(local, remote netip.AddrPort) (socketOwner, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return socketOwner{}, fmt.Errorf("open sock_diag: %w", err)
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(diagTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return socketOwner{}, fmt.Errorf("set up sock_diag: %w", err)
	}
	if err := unix.Sendto(fd, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return socketOwner{}, fmt.Errorf("ask sock_diag: %w", err)
	}
	var buf [4096]byte
	for {
		n, _, err := unix.Recvfrom(fd, buf[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return socketOwner{}, fmt.Errorf("read sock_diag: %w", err)
		}
		return parseDiag(buf[:n], local, remote)
	}
}

// diagRequest asks for one socket, not for a list: without NLM_F_DUMP the
// kernel looks it up by its four numbers.
func diagRequest(local, remote netip.AddrPort) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	request := b[unix.SizeofNlMsghdr:]
	request[0] = unix.AF_INET
	if local.Addr().Is6() {
		request[0] = unix.AF_INET6
	}
	request[1] = unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(request[4:], anyState)
	id := request[sockIDInRequest:]
	binary.BigEndian.PutUint16(id[sockIDSport:], local.Port())
	binary.BigEndian.PutUint16(id[sockIDDport:], remote.Port())
	copy(id[sockIDSrc:], local.Addr().AsSlice())
	copy(id[sockIDDst:], remote.Addr().AsSlice())
	binary.NativeEndian.PutUint32(id[sockIDCookie:], anyCookie)
	binary.NativeEndian.PutUint32(id[sockIDCookie+4:], anyCookie)
	return b
}

// parseDiag reads the answer. The kernel falls back to a listening socket of
// the same port, so the answer must be about the socket that was asked for.
func parseDiag(b []byte, local, remote netip.AddrPort) (socketOwner, error) {
	if len(b) < unix.SizeofNlMsghdr+4 {
		return socketOwner{}, fmt.Errorf("sock_diag answered %d bytes", len(b))
	}
	kind := binary.NativeEndian.Uint16(b[4:])
	body := b[unix.SizeofNlMsghdr:]
	if kind == unix.NLMSG_ERROR {
		return socketOwner{}, fmt.Errorf("sock_diag: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(body))))
	}
	if kind != unix.SOCK_DIAG_BY_FAMILY || len(body) < diagAnswerSize {
		return socketOwner{}, fmt.Errorf("sock_diag answered message %d of %d bytes", kind, len(b))
	}
	id := body[sockIDInAnswer:]
	if body[answerState] == stateListen ||
		binary.BigEndian.Uint16(id[sockIDSport:]) != local.Port() ||
		binary.BigEndian.Uint16(id[sockIDDport:]) != remote.Port() {
		return socketOwner{}, fmt.Errorf("sock_diag answered about another socket")
	}
	return socketOwner{
		uid:   binary.NativeEndian.Uint32(body[answerUID:]),
		inode: binary.NativeEndian.Uint32(body[answerInode:]),
	}, nil
}
