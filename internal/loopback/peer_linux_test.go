package loopback

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is the uid of the user who owns nothing.
const nobody = 65534

func supported(t testing.TB) PeerCheck {
	t.Helper()
	check := NewPeerCheck(nil)
	if !check.Supported() {
		t.Skip("this kernel has no sock_diag for TCP")
	}
	return check
}

func TestAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to start a client of another user")
	}
	check := supported(t)
	if err := clientOf(t, check, nobody); !errors.Is(err, ErrForeignPeer) {
		t.Errorf("uid %d: %v, want refusal", nobody, err)
	}
	if err := clientOf(t, check, 0); err != nil {
		t.Errorf("uid 0: %v", err)
	}
}

// clientOf checks the connection of a process that runs under a uid.
func clientOf(t *testing.T, check PeerCheck, uid uint32) error {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := exec.Command(readableCopy(t))
	client.Env = []string{dialEnv + "=" + l.Addr().String()}
	client.Dir = "/"
	client.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	hangUp, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { hangUp.Close(); _ = client.Wait() }()
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("the client did not connect")
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	return check.Check(server)
}

// readableCopy puts the test binary where any user may run it.
func readableCopy(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "loopback")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "client")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, binary, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAConnectionThatIsClosedAtOnceIsRefused(t *testing.T) {
	check := supported(t)
	server, client := connect(t)
	if _, err := client.Write([]byte(`{"requestId":"1","type":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := check.Check(server); !errors.Is(err, ErrForeignPeer) {
		t.Errorf("check: %v", err)
	}
}

func TestAHalfClosedConnectionIsAdmitted(t *testing.T) {
	check := supported(t)
	server, client := connect(t)
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := check.Check(server); err != nil {
		t.Error(err)
	}
}

// A client may reach an IPv4 address by an IPv6 socket, which lists of IPv4
// sockets do not hold.
func TestAMappedConnectionIsSeen(t *testing.T) {
	check := supported(t)
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip("no IPv6 here:", err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrInet6{Port: l.Port(), Addr: netip.MustParseAddr("::ffff:127.0.0.1").As16()}
	if err := unix.Connect(fd, to); err != nil {
		t.Skip("no mapped addresses here:", err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := check.Check(server); err != nil {
		t.Error(err)
	}
}

func TestAnotherMachineIsRefused(t *testing.T) {
	remote := addressed{
		local:  &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1},
		remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 2},
	}
	if err := supported(t).Check(remote); !errors.Is(err, ErrForeignPeer) {
		t.Errorf("check: %v", err)
	}
}

// A daemon that started with no descriptor to spare must not be open to every
// user for the rest of its life.
func TestAFailedProbeRefusesUntilALaterOneSucceeds(t *testing.T) {
	server, _ := connect(t)
	for _, reason := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EAGAIN} {
		t.Run(unix.ErrnoName(reason.(unix.Errno)), func(t *testing.T) {
			failing := true
			owner := socketOwner{uid: 7, inode: 1}
			check := &sockDiag{uid: 7, unsupported: func() { t.Error("said to be unsupported") }}
			check.find = func(_, _ netip.AddrPort) (socketOwner, error) {
				if failing {
					return socketOwner{}, fmt.Errorf("open sock_diag: %w", reason)
				}
				return owner, nil
			}
			if err := check.Check(server); !errors.Is(err, ErrForeignPeer) || !errors.Is(err, reason) {
				t.Errorf("while it fails: %v", err)
			}
			failing = false
			if err := check.Check(server); err != nil || !check.Supported() {
				t.Errorf("once it works: %v, supported: %v", err, check.Supported())
			}
			owner.uid = nobody
			if err := check.Check(server); !errors.Is(err, ErrForeignPeer) {
				t.Errorf("another user: %v", err)
			}
		})
	}
}

func TestASystemThatCannotTellIsToldOfOnce(t *testing.T) {
	server, _ := connect(t)
	for name, find := range map[string]func(_, _ netip.AddrPort) (socketOwner, error){
		"no such protocol": func(_, _ netip.AddrPort) (socketOwner, error) {
			return socketOwner{}, fmt.Errorf("open sock_diag: %w", unix.EPROTONOSUPPORT)
		},
		"no such module": func(_, _ netip.AddrPort) (socketOwner, error) { return socketOwner{}, unix.ENOENT },
		"another owner":  func(_, _ netip.AddrPort) (socketOwner, error) { return socketOwner{uid: 8, inode: 1}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			check := &sockDiag{uid: 7, find: find, unsupported: func() { told++ }}
			for range 2 {
				if err := check.Check(server); err != nil {
					t.Error(err)
				}
			}
			if check.Supported() || told != 1 {
				t.Errorf("supported: %v, told %d times", check.Supported(), told)
			}
		})
	}
}

// addressed is a connection that has addresses and nothing else.
type addressed struct {
	net.Conn
	local, remote net.Addr
}

func (a addressed) LocalAddr() net.Addr  { return a.local }
func (a addressed) RemoteAddr() net.Addr { return a.remote }

func TestASocketThatIsNotThereIsRefused(t *testing.T) {
	server, client := connect(t)
	elsewhere := *client.LocalAddr().(*net.TCPAddr)
	elsewhere.IP = net.IPv4(127, 0, 0, 9)
	if err := supported(t).Check(addressed{server, server.LocalAddr(), &elsewhere}); !errors.Is(err, ErrForeignPeer) {
		t.Errorf("check: %v", err)
	}
}

func TestAnAnswerAboutAnotherSocketIsNone(t *testing.T) {
	local, remote := netip.MustParseAddrPort("127.0.0.1:1000"), netip.MustParseAddrPort("127.0.0.1:2000")
	answer := func(change func(b []byte)) []byte {
		b := make([]byte, unix.SizeofNlMsghdr+diagAnswerSize)
		binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
		body := b[unix.SizeofNlMsghdr:]
		body[answerState] = 1
		binary.BigEndian.PutUint16(body[sockIDInAnswer+sockIDSport:], 1000)
		binary.BigEndian.PutUint16(body[sockIDInAnswer+sockIDDport:], 2000)
		binary.NativeEndian.PutUint32(body[answerUID:], 7)
		binary.NativeEndian.PutUint32(body[answerInode:], 8)
		change(b)
		return b
	}
	tests := []struct {
		name   string
		answer []byte
		fails  bool
	}{
		{"the socket", answer(func([]byte) {}), false},
		{"a listening socket of the same port", answer(func(b []byte) { b[unix.SizeofNlMsghdr+answerState] = stateListen }), true},
		{"another port", answer(func(b []byte) { b[unix.SizeofNlMsghdr+sockIDInAnswer+sockIDDport]++ }), true},
		{"an error", answer(func(b []byte) { binary.NativeEndian.PutUint16(b[4:], unix.NLMSG_ERROR) }), true},
		{"another message", answer(func(b []byte) { binary.NativeEndian.PutUint16(b[4:], unix.NLMSG_DONE) }), true},
		{"short", answer(func([]byte) {})[:40], true},
		{"empty", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			owner, err := parseDiag(tt.answer, local, remote)
			if (err != nil) != tt.fails {
				t.Errorf("got %+v, %v", owner, err)
			}
			if !tt.fails && owner != (socketOwner{uid: 7, inode: 8}) {
				t.Errorf("got %+v", owner)
			}
		})
	}
}

func BenchmarkPeerCheck(b *testing.B) {
	check := supported(b)
	server, _ := connect(b)
	for b.Loop() {
		if err := check.Check(server); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzParseDiag reads answers of the kernel: only one about the very socket that was
// asked for names an owner.
func FuzzParseDiag(f *testing.F) {
	local, remote := netip.MustParseAddrPort("127.0.0.1:4711"), netip.MustParseAddrPort("127.0.0.1:50000")
	whole := make([]byte, unix.SizeofNlMsghdr+diagAnswerSize)
	binary.NativeEndian.PutUint16(whole[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.BigEndian.PutUint16(whole[unix.SizeofNlMsghdr+sockIDInAnswer+sockIDSport:], local.Port())
	binary.BigEndian.PutUint16(whole[unix.SizeofNlMsghdr+sockIDInAnswer+sockIDDport:], remote.Port())
	f.Add(whole)
	f.Add(whole[:20])
	other := bytes.Clone(whole)
	other[unix.SizeofNlMsghdr+sockIDInAnswer+sockIDDport]++
	f.Add(other)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, answer []byte) {
		owner, err := parseDiag(answer, local, remote)
		if err != nil {
			if owner != (socketOwner{}) {
				t.Fatalf("%v, and yet the owner %+v", err, owner)
			}
			return
		}
		id := answer[unix.SizeofNlMsghdr+sockIDInAnswer:]
		if binary.BigEndian.Uint16(id[sockIDSport:]) != local.Port() || binary.BigEndian.Uint16(id[sockIDDport:]) != remote.Port() {
			t.Fatalf("%x is about another socket", answer)
		}
	})
}
