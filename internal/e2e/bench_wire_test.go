package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/pedelec/pedelec-core/internal/store"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Sizes of the measurements of this file.
const (
	pingRounds     = 5_000
	commandCallers = 16
	commandTime    = 3 * time.Second
	recordBytes    = 600 // about what one command writes: the record
	eventBytes     = 120 // and an event
	replayEvents   = 10_000
	replayRuns     = 5
)

// Targets.
const (
	pingRatioTarget    = 1.3
	commandRatioTarget = 0.6
	replayTarget       = 100 * time.Millisecond
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

// perSecond runs work by so many callers for a while and returns its rate.
func perSecond(callers int, d time.Duration, work func(caller int) error) (float64, error) {
	var g errgroup.Group
	counts := make([]int, callers)
	began := time.Now()
	for i := range callers {
		g.Go(func() error {
			for time.Since(began) < d {
				if err := work(i); err != nil {
					return err
				}
				counts[i]++
			}
			return nil
		})
	}
	err := g.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(began).Seconds(), err
}

func benchCommands(t *testing.T, r *report) {
	home := newHome(t)
	work := filepath.Join(filepath.Dir(home), "work")
	d := start(t, home)
	conns := make([]*conn, commandCallers)
	ids := make([]string, commandCallers)
	for i := range conns {
		conns[i] = d.dial()
		var created struct {
			ThreadID string `json:"threadId"`
		}
		payload := object{"provider": "opencode", "workspace": object{"path": filepath.Join(work, fmt.Sprint("w", i))}}
		if err := conns[i].call("create_thread", payload, &created); err != nil {
			t.Fatal(err)
		}
		ids[i] = created.ThreadID
		if err := conns[i].call("end_thread", object{"threadId": ids[i]}, nil); err != nil {
			t.Fatal(err)
		}
	}
	pairs, err := perSecond(commandCallers, commandTime, func(i int) error {
		if err := conns[i].call("resume_thread", object{"threadId": ids[i]}, nil); err != nil {
			return err
		}
		return conns[i].call("end_thread", object{"threadId": ids[i]}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	creates, err := perSecond(commandCallers, commandTime, func(i int) error {
		return conns[i].call("create_thread", object{"provider": "opencode"}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	raw := groupCommits(t, false)
	rawDir := groupCommits(t, true)
	r.add(figure{
		id: "N4", what: "durable commands (resume, end), 16 threads at once", value: rate(2 * pairs), baseline: rate(raw) + ", group commit of the same bytes",
		ratio: 2 * pairs / raw, target: "≥ 0.6 ×", reached: 2*pairs/raw >= commandRatioTarget,
	})
	r.add(figure{
		id: "N4", what: "create, 16 at once", value: rate(creates), baseline: rate(rawDir) + ", group commit and one mkdir",
		ratio: creates / rawDir, target: "≥ 0.6 ×", reached: creates/rawDir >= commandRatioTarget,
	})
}

func rate(n float64) string { return fmt.Sprintf("%.0f /s", n) }

// groupCommits measures what bbolt does with the bytes of a command when one
// goroutine commits for all callers.
func groupCommits(t *testing.T, mkdir bool) float64 {
	t.Helper()
	dir := t.TempDir()
	db, err := bolt.Open(filepath.Join(dir, "raw.db"), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	type put struct {
		key  string
		done chan error
	}
	puts := make(chan put, commandCallers)
	var committer sync.WaitGroup
	committer.Go(func() {
		commitLoop(db, func() (batch []func(*bolt.Tx) error, done []chan error) {
			first, ok := <-puts
			if !ok {
				return nil, nil
			}
			for more := true; more; {
				batch = append(batch, func(tx *bolt.Tx) error { return rawPut(tx, first.key) })
				done = append(done, first.done)
				select {
				case next, ok := <-puts:
					more = ok
					first = next
				default:
					more = false
				}
			}
			return batch, done
		})
	})
	n := make([]int, commandCallers)
	got, err := perSecond(commandCallers, commandTime, func(i int) error {
		key := fmt.Sprintf("t%02d", i)
		if mkdir {
			key = fmt.Sprintf("t%02d-%d", i, n[i])
			if err := os.Mkdir(filepath.Join(dir, key), 0o700); err != nil {
				return err
			}
		}
		n[i]++
		p := put{key: fmt.Sprintf("%s-%d", key, n[i]), done: make(chan error, 1)}
		puts <- p
		return <-p.done
	})
	close(puts)
	committer.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// commitLoop commits batches until there are no more.
func commitLoop(db *bolt.DB, next func() ([]func(*bolt.Tx) error, []chan error)) {
	for {
		batch, done := next()
		if batch == nil {
			return
		}
		err := db.Update(func(tx *bolt.Tx) error {
			for _, apply := range batch {
				if err := apply(tx); err != nil {
					return err
				}
			}
			return nil
		})
		for _, d := range done {
			d <- err
		}
	}
}

// rawPut writes about what a command writes: the record and an event.
func rawPut(tx *bolt.Tx, key string) error {
	records, err := tx.CreateBucketIfNotExists([]byte("records"))
	if err != nil {
		return err
	}
	events, err := tx.CreateBucketIfNotExists([]byte("events"))
	if err != nil {
		return err
	}
	if err := records.Put([]byte(key[:3]), make([]byte, recordBytes)); err != nil {
		return err
	}
	return events.Put([]byte(key), make([]byte, eventBytes))
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
