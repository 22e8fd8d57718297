package e2e

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/pedelec/pedelec-core/internal/store"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Sizes of the measurements of this file.
const (
	pingRounds   = 5_000
	replayEvents = 10_000
	replayRuns   = 5
)

// Targets.
const (
	pingRatioTarget = 1.3
	replayTarget    = 100 * time.Millisecond
)

// roundTrips measures pings on one connection.
func roundTrips(t testing.TB, endpoint string) samples {
	t.Helper()
	c, err := net.Dial("tcp", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	line := []byte(`{"requestId":"r1","type":"ping"}` + "\n")
	var all samples
	for i := range pingRounds {
		began := time.Now()
		if _, err := c.Write(line); err != nil {
			t.Fatal(err)
		}
		if _, err := r.ReadSlice('\n'); err != nil {
			t.Fatal(err)
		}
		if i >= pingRounds/10 { // the first warm things up
			all = append(all, time.Since(began))
		}
	}
	return all
}

func benchPing(t *testing.T, r *report) {
	args, err := helperCommand("echo")
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
	defer func() {
		stdin.Close()
		_ = cmd.Wait()
	}()
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, newHome(t))
	var ours, bare samples
	for range 3 { // in turns, so that both meet the same noise
		bare = append(bare, roundTrips(t, strings.TrimSpace(address))...)
		ours = append(ours, roundTrips(t, d.info.Endpoint)...)
	}
	a, b := ours.median(), bare.median()
	r.add(figure{
		id: "N3", what: "ping round trip over TCP, p50", value: us(a), baseline: us(b) + ", a bare Go server with the same JSON",
		ratio: ratio(a, b), target: "≤ 1.3 ×", reached: ratio(a, b) <= pingRatioTarget,
	})
}

// longThread is an ended thread with a long journal on a workspace of its own.
func longThread(work string) []thread.Commit {
	now := time.Now().UTC()
	record := thread.Record{
		ID: "t0000000000000000", Revision: 1, Instance: "earlier", Provider: thread.OpenCode, Effort: thread.DefaultEffort,
		Workspace: thread.Workspace{Path: work}, CreatedAt: now, UpdatedAt: now, Status: thread.Ended,
	}
	var commits []thread.Commit
	const chunk = 500
	for from := 0; from < replayEvents; from += chunk {
		var events []thread.Event
		for i := range chunk {
			events = append(events, thread.Event{
				Kind: thread.EventAssistantMessage, Seq: uint64(from + i + 1), OperationID: "op", Text: "A sentence of the usual length for one message.",
			})
		}
		record.Revision++
		record.LatestSeq = uint64(from + chunk)
		commits = append(commits, thread.Commit{Create: from == 0, Record: record, Events: events})
	}
	return commits
}

func benchReplay(t *testing.T, r *report) {
	home := newHome(t)
	work := filepath.Join(filepath.Dir(home), "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "core.db")
	s := store.New(path)
	s.InstanceID = "earlier"
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	for _, c := range longThread(work) {
		if err := s.Commit(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var raw samples
	for range replayRuns {
		raw = append(raw, scanToSocket(t, path))
	}
	d := start(t, home)
	var ours samples
	for range replayRuns {
		ours = append(ours, replayOnce(t, d))
	}
	a, b := ours.median(), raw.median()
	r.add(figure{
		id: "N8", what: "replay of 10,000 journal events to one client", value: ms(a), baseline: ms(b) + ", bbolt scan and socket write",
		ratio: ratio(a, b), target: "≤ 100 ms", reached: a <= replayTarget,
	})
}

func replayOnce(t *testing.T, d *daemon) time.Duration {
	t.Helper()
	c, err := net.Dial("tcp", d.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	if _, err := io.WriteString(c, `{"requestId":"s","type":"subscribe_thread","payload":{"threadId":"t0000000000000000","afterSeq":0}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	return drainLines(t, c, replayEvents+1, began)
}

// drainLines reads so many lines and returns the time since the beginning.
func drainLines(t *testing.T, c net.Conn, n int, began time.Time) time.Duration {
	t.Helper()
	r := bufio.NewReaderSize(c, 256<<10)
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := r.ReadSlice('\n'); err != nil {
			t.Fatalf("line %d of %d: %v", i, n, err)
		}
	}
	return time.Since(began)
}

// scanToSocket reads the same events from the file and writes them to a socket,
// one by one through a buffer.
func scanToSocket(t *testing.T, path string) time.Duration {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	began := time.Now()
	var g errgroup.Group
	g.Go(func() error {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		defer c.Close()
		w := bufio.NewWriterSize(c, 64<<10)
		return db.View(func(tx *bolt.Tx) error {
			err := tx.Bucket([]byte("journal")).ForEach(func(_, v []byte) error {
				if _, err := w.Write(v); err != nil {
					return err
				}
				return w.WriteByte('\n')
			})
			if err != nil {
				return err
			}
			return w.Flush()
		})
	})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, err := io.Copy(io.Discard, c)
	took := time.Since(began)
	if err := g.Wait(); err != nil || n == 0 {
		t.Fatalf("%d bytes: %v", n, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return took
}
