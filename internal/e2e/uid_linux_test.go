package e2e

import (
	"errors"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAnotherUserIsClosedUnparsed connects with a socket that belongs to another
// user of the machine.
func TestAnotherUserIsClosedUnparsed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a socket of another user")
	}
	d := newAttacked(t)
	const nobody = 65534
	c, err := dialAs(nobody, d.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte(createLine)) // the daemon may have closed already
	buf := make([]byte, 1024)
	n, err := c.Read(buf)
	if n > 0 || err == nil || isTimeout(err) {
		t.Errorf("another user's connection got %q, %v; want a silent close", buf[:n], err)
	}
	d.onlyThread()
}

// dialAs connects with a socket that the kernel counts as another user's: sockets
// take the file system uid of the thread that makes them.
func dialAs(uid int, endpoint string) (net.Conn, error) {
	addr, err := net.ResolveTCPAddr("tcp4", endpoint)
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0); errno != 0 {
		return nil, errno
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(os.Geteuid()), 0, 0); errno != 0 {
		panic(errno) // the thread must not go on as another user
	}
	if err != nil {
		return nil, err
	}
	to := &unix.SockaddrInet4{Port: addr.Port}
	copy(to.Addr[:], addr.IP.To4())
	if err := unix.Connect(fd, to); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	return net.FileConn(f)
}
