package loopback

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// limit is the time limit in these tests. It is longer than a standstill has to be.
const limit = 3 * time.Second

// sleepOver makes a limit that was just set look as if the process slept over it: it
// passes earlier than the system is told. It returns the limit.
func (d *deadline) sleepOver() (at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = d.at.Add(-limit / 2)
	return d.at
}

// awaitRenewal returns when a limit is another one, or when it is late.
func (d *deadline) awaitRenewal(at time.Time) {
	tick := time.NewTicker(limit / 100)
	defer tick.Stop()
	for now := range tick.C {
		d.mu.Lock()
		renewed := d.at != at
		d.mu.Unlock()
		if renewed || now.Sub(at) > limit {
			return
		}
	}
}

// pair returns both ends of a connection that a listener of ours accepted.
func pair(t *testing.T) (ours *Conn, peer *net.TCPConn) {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		accepted.Close()
		dialled.Close()
	})
	return accepted.(*Conn), dialled.(*net.TCPConn)
}

// writers are the ways in which something large is written to a connection.
func writers(t *testing.T, content []byte) map[string]func(*Conn) (int64, error) {
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return map[string]func(*Conn) (int64, error){
		"bytes": func(c *Conn) (int64, error) {
			n, err := c.Write(content)
			return int64(n), err
		},
		"a file":   func(c *Conn) (int64, error) { return io.CopyN(c, file, int64(len(content))) },
		"a reader": func(c *Conn) (int64, error) { return io.Copy(c, struct{ io.Reader }{bytes.NewReader(content)}) },
	}
}

// large is more than the buffers of a connection take.
func large() []byte {
	content := make([]byte, 16<<20)
	for i := range content {
		content[i] = byte(i >> 12)
	}
	return content
}

func TestADownloadIsNotCutByAStandstill(t *testing.T) {
	t.Parallel()
	content := large()
	for name, write := range writers(t, content) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, peer := pair(t)
			if err := ours.SetWriteDeadline(time.Now().Add(limit)); err != nil {
				t.Fatal(err)
			}
			at := ours.writing.sleepOver()
			read := make(chan []byte, 1)
			go func() {
				ours.writing.awaitRenewal(at)
				got, _ := io.ReadAll(peer) // a part is noticed
				read <- got
			}()
			n, err := write(ours)
			ours.Close()
			if err != nil || n != int64(len(content)) {
				t.Errorf("%d bytes of %d were written: %v", n, len(content), err)
			}
			if got := <-read; !bytes.Equal(got, content) {
				t.Errorf("%d bytes of %d arrived, or others", len(got), len(content))
			}
		})
	}
}

// TestAStandstillBetweenTwoWritesCutsNoDownload: the next write begins behind its
// limit, which passed while nobody could write.
func TestAStandstillBetweenTwoWritesCutsNoDownload(t *testing.T) {
	t.Parallel()
	content := large()
	for name, write := range writers(t, content) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, peer := pair(t)
			passed := time.Now().Add(limit / 2)
			if err := ours.SetWriteDeadline(passed); err != nil {
				t.Fatal(err)
			}
			ours.writing.sleepOver()
			<-time.After(time.Until(passed))
			read := make(chan int64, 1)
			go func() {
				n, _ := io.Copy(io.Discard, peer) // a part is noticed
				read <- n
			}()
			n, err := write(ours)
			ours.Close()
			if got := <-read; err != nil || n != int64(len(content)) || got != n {
				t.Errorf("%d bytes of %d were written and %d read: %v", n, len(content), got, err)
			}
		})
	}
}

// TestALimitThatEndedAWaitStaysPassed, however late somebody tries again.
func TestALimitThatEndedAWaitStaysPassed(t *testing.T) {
	t.Parallel()
	ours, _ := pair(t)
	at := time.Now().Add(limit / 100)
	if err := ours.SetReadDeadline(at); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		<-time.After(limit / 2)
	}
	if ours.reading.at != at {
		t.Error("the limit was set anew")
	}
}

func TestAPeerThatDoesNotReadIsCutInTime(t *testing.T) {
	t.Parallel()
	for name, write := range writers(t, large()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, _ := pair(t)
			began := time.Now()
			if err := ours.SetWriteDeadline(began.Add(limit / 10)); err != nil {
				t.Fatal(err)
			}
			if _, err := write(ours); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
			if ours.writing.at.Sub(began) != limit/10 {
				t.Error("the limit was set anew")
			}
		})
	}
}

func TestALimitThatEndsAWaitAtOnceIsNotRenewed(t *testing.T) {
	t.Parallel()
	ours, _ := pair(t)
	ended := make(chan error, 1)
	go func() {
		_, err := ours.Read(make([]byte, 1))
		ended <- err
	}()
	if err := ours.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
}

// What came during a standstill may take two reads, of which the second begins behind
// the limit.
func TestTheRestOfWhatCameDuringAStandstillIsReadToo(t *testing.T) {
	t.Parallel()
	ours, peer := pair(t)
	set := time.Now().Add(limit)
	if err := ours.SetReadDeadline(set); err != nil {
		t.Fatal(err)
	}
	ours.reading.sleepOver()
	late := time.AfterFunc(limit*9/10, func() { _, _ = peer.Write([]byte("firstrest")) })
	defer late.Stop()
	for _, want := range []string{"first", "rest"} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(ours, got); err != nil || string(got) != want {
			t.Fatalf("read %q, %v, want %q", got, err, want)
		}
		<-time.After(time.Until(set) + limit/10)
	}
}
