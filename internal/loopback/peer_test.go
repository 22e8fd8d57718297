package loopback

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
)

// dialEnv makes the test binary a client of another process, and perhaps of
// another user: it connects to the address, says so and waits for EOF.
const dialEnv = "LOOPBACK_TEST_DIAL"

func beForeignClient(addr string) int {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer conn.Close()
	fmt.Println("connected as", os.Getuid())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// connect returns both ends of a connection to a new listener.
func connect(t testing.TB) (server, client net.Conn) {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

func TestACheckThatCannotTellAdmits(t *testing.T) {
	server, _ := connect(t)
	var check PeerCheck = unchecked{}
	if err := check.Check(server); err != nil || check.Supported() {
		t.Errorf("check: %v, supported: %v", err, check.Supported())
	}
}

func TestOurOwnConnectionIsAdmitted(t *testing.T) {
	server, _ := connect(t)
	if err := NewPeerCheck(nil).Check(server); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotTCPIsRefused(t *testing.T) {
	check := NewPeerCheck(nil)
	if !check.Supported() {
		t.Skip("this system cannot tell a peer's user")
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if err := check.Check(a); !errors.Is(err, ErrForeignPeer) {
		t.Errorf("check: %v", err)
	}
}
