package loopback

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestOnlyLoopbackIsListenedOn(t *testing.T) {
	tests := []struct {
		name    string
		addr    string
		allowed bool
	}{
		{"loopback", "127.0.0.1:0", true},
		{"another loopback address", "127.0.0.2:0", false},
		{"a name", "localhost:0", false},
		{"IPv6 loopback", "[::1]:0", false},
		{"every address", "0.0.0.0:0", false},
		{"every address, left out", ":0", false},
		{"no port", "127.0.0.1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Listen(t.Context(), tt.addr, Options{})
			if err == nil {
				defer l.Close()
			}
			if allowed := err == nil; allowed != tt.allowed {
				t.Fatalf("listen: %v", err)
			}
			if err != nil && !fault.Is(err, fault.InvalidInput) {
				t.Errorf("error %v, want %s", err, fault.InvalidInput)
			}
			if err == nil && l.Port() == 0 {
				t.Error("no port")
			}
		})
	}
}

func TestAConnectionOverTheLimitIsClosedAndOthersLive(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn)
	stopped := make(chan error, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				stopped <- err
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	first, second := dial(), dial()
	serverOfFirst := <-accepted
	serverOfSecond := <-accepted
	over := dial()
	_ = over.SetReadDeadline(time.Now().Add(patience))
	if _, err := over.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read of the one over the limit: %v", err)
	}
	if l.Refused() != 1 || l.Open() != 2 {
		t.Errorf("%d refused, %d open", l.Refused(), l.Open())
	}
	serverOfFirst.Close()
	serverOfFirst.Close() // makes room once only
	third := dial()
	serverOfThird := <-accepted
	for _, pair := range [][2]net.Conn{{second, serverOfSecond}, {third, serverOfThird}} {
		if _, err := pair[0].Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(pair[1], make([]byte, 1)); err != nil {
			t.Error(err)
		}
		pair[1].Close()
	}
	_ = first
	l.Close()
	if err := <-stopped; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	if l.Open() != 0 {
		t.Errorf("%d open", l.Open())
	}
}
