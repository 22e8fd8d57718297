package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// Sizes of the measurements of this file.
const (
	transferRuns  = 7
	parallelBytes = 32 << 20 // of each of maxUploads
	memorySample  = 2 * time.Millisecond
)

// Targets.
const (
	uploadRateTarget     = 0.8
	uploadMemoryTarget   = 4 << 20  // bytes, for one
	parallelMemoryTarget = 16 << 20 // bytes, for maxUploads
)

// benchUpload measures uploads of the largest file, and what memory they take.
func benchUpload(t *testing.T, r *report) {
	d := start(t, newHome(t))
	k := newDesk(t, d, "one")
	k.upload(3) // what is made once is there
	sink := startSink(t)
	body := make([]byte, largestAsset)
	var ours, bare samples
	var most int64
	for range transferRuns { // in turns, so that both meet the same noise
		bare = append(bare, sink.send(t, body))
		before, err := anonymousMemory(d.cmd.Process.Pid)
		if err != nil {
			t.Skip(err)
		}
		peak := watchMemory(t, d.cmd.Process.Pid)
		ours = append(ours, k.upload(largestAsset))
		most = max(most, peak()-before)
	}
	a, b := ours.median(), bare.median()
	r.add(figure{
		id: "N11", what: "upload of 100 MiB with digest and fsync", value: mibPerSecond(a), baseline: mibPerSecond(b) + ", io.Copy from a socket into a file, SHA-256, fsync",
		ratio: ratio(b, a), target: "≥ 0.8 ×", reached: ratio(b, a) >= uploadRateTarget,
	})
	r.add(figure{
		id: "N11", what: "anonymous memory added by one upload of 100 MiB", value: mib(most), target: "≤ 4 MB", reached: most <= uploadMemoryTarget,
	})
	benchParallelUploads(t, r)
}

func mibPerSecond(d time.Duration) string {
	return fmt.Sprintf("%.0f MB/s", float64(largestAsset)/(1<<20)/d.Seconds())
}

// benchParallelUploads measures the memory of as many uploads as may run at once.
func benchParallelUploads(t *testing.T, r *report) {
	d := start(t, newHome(t))
	var desks []*desk
	for i := range maxUploads {
		k := newDesk(t, d, fmt.Sprint("w", i))
		k.upload(3)
		desks = append(desks, k)
	}
	before, err := anonymousMemory(d.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	peak := watchMemory(t, d.cmd.Process.Pid)
	body := make([]byte, parallelBytes)
	var g errgroup.Group
	for _, k := range desks {
		ticket := k.ticket(parallelBytes)
		g.Go(func() error {
			got, err := k.put(ticket, body)
			if err == nil && got.status != http.StatusCreated {
				err = fmt.Errorf("an upload got %+v", got)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	most := peak() - before
	r.add(figure{
		id: "N11", what: fmt.Sprintf("anonymous memory added by %d uploads at once", maxUploads), value: mib(most),
		target: "≤ 16 MB", reached: most <= parallelMemoryTarget,
	})
}

// upload makes an upload and returns how long it took.
func (k *desk) upload(size int) time.Duration {
	k.t.Helper()
	ticket := k.ticket(size)
	body := make([]byte, size)
	began := time.Now()
	got, err := k.put(ticket, body)
	took := time.Since(began)
	if err != nil || got.status != http.StatusCreated {
		k.t.Fatalf("an upload got %+v, %v", got, err)
	}
	return took
}

// watchMemory looks at the memory of a process from now on; peak ends that and
// returns the most that was seen.
func watchMemory(t *testing.T, pid int) (peak func() int64) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(memorySample)
		defer tick.Stop()
		var most int64
		for {
			if n, err := anonymousMemory(pid); err == nil {
				most = max(most, n)
			}
			select {
			case <-stop:
				done <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-done
	}
}

// sink is a process that does the least with what it is sent.
type sink struct{ address string }

func startSink(t *testing.T) sink {
	t.Helper()
	args, err := helperCommand("sink", filepath.Join(t.TempDir(), "sink.bin"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return sink{strings.TrimSpace(address)}
}

// send sends a body and waits until it is on disk.
func (s sink) send(t *testing.T, body []byte) time.Duration {
	t.Helper()
	began := time.Now()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.Copy(c, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// sinkServer writes each connection's bytes into a file with their digest and
// forces it to disk; closing the connection says that it is done. It leaves when
// stdin ends.
func sinkServer(path string) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		if err := swallow(c, path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

func swallow(c net.Conn, path string) error {
	defer c.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(io.MultiWriter(f, sha256.New()), c); err != nil {
		return err
	}
	return f.Sync()
}
