package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"
)

// Sizes of the measurements of this file.
const (
	commandCallers = 16
	commandTime    = time.Second // of one turn
	commandTurns   = 5
	recordBytes    = 184 // what one command writes besides keys: the record
	eventBytes     = 39  // and the event, or for an end the mean of two
)

const commandRatioTarget = 0.6

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

// caller sends prepared requests on a bare socket, so that the machine is the daemon's.
type caller struct {
	socket net.Conn
	lines  *bufio.Reader
}

func newCaller(t *testing.T, d *daemon) caller {
	t.Helper()
	socket, err := net.Dial("tcp", d.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return caller{socket, bufio.NewReader(socket)}
}

// ask sends a request and waits until it was answered with success.
func (c caller) ask(line []byte) error {
	if _, err := c.socket.Write(line); err != nil {
		return err
	}
	answer, err := c.lines.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.Contains(answer, []byte(`"ok":true`)) {
		return fmt.Errorf("%s was answered with %s", line, answer)
	}
	return nil
}

// endedThreads makes ended threads with a custom workspace each.
func endedThreads(t *testing.T, d *daemon, n int) []string {
	t.Helper()
	work := filepath.Join(filepath.Dir(d.home), "work")
	c := d.dial()
	ids := make([]string, n)
	for i := range ids {
		var created struct {
			ThreadID string `json:"threadId"`
		}
		payload := object{"provider": "opencode", "workspace": object{"path": filepath.Join(work, fmt.Sprint("w", i))}}
		if err := c.call("create_thread", payload, &created); err != nil {
			t.Fatal(err)
		}
		ids[i] = created.ThreadID
		if err := c.call("end_thread", object{"threadId": ids[i]}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// benchCommands compares the daemon with group commits in turns, since a machine
// is not equally busy all the time.
func benchCommands(t *testing.T, r *report) {
	d := start(t, newHome(t))
	threads := endedThreads(t, d, commandCallers)
	callers := make([]caller, commandCallers)
	for i := range callers {
		callers[i] = newCaller(t, d)
	}
	request := func(kind, id string) []byte {
		return fmt.Appendf(nil, `{"requestId":"r","type":%q,"payload":{"threadId":%q}}`+"\n", kind, id)
	}
	resume, end := make([][]byte, commandCallers), make([][]byte, commandCallers)
	for i, id := range threads {
		resume[i], end[i] = request("resume_thread", id), request("end_thread", id)
	}
	create := []byte(`{"requestId":"r","type":"create_thread","payload":{"provider":"opencode"}}` + "\n")
	raw, rawDir := newGroupCommits(t), newGroupCommits(t)

	commands, commits := inTurns(t, func(i int) error {
		if err := callers[i].ask(resume[i]); err != nil {
			return err
		}
		return callers[i].ask(end[i])
	}, raw.change)
	commands *= 2
	creates, dirs := inTurns(t, func(i int) error { return callers[i].ask(create) }, rawDir.create)
	r.add(figure{
		id: "N4", what: "durable commands (resume, end), 16 threads at once", value: rate(commands), baseline: rate(commits) + ", group commit of the same bytes",
		ratio: commands / commits, target: "≥ 0.6 ×", reached: commands/commits >= commandRatioTarget,
	})
	r.add(figure{
		id: "N4", what: "create, 16 at once", value: rate(creates), baseline: rate(dirs) + ", group commit and one mkdir",
		ratio: creates / dirs, target: "≥ 0.6 ×", reached: creates/dirs >= commandRatioTarget,
	})
}

// inTurns returns the mean rates of two kinds of work of all callers.
func inTurns(t *testing.T, ours, bare func(caller int) error) (a, b float64) {
	t.Helper()
	for range commandTurns {
		for _, m := range []struct {
			rate *float64
			work func(int) error
		}{{&a, ours}, {&b, bare}} {
			got, err := perSecond(commandCallers, commandTime, m.work)
			if err != nil {
				t.Fatal(err)
			}
			*m.rate += got / commandTurns
		}
	}
	return a, b
}

func rate(n float64) string { return fmt.Sprintf("%.0f /s", n) }

// groupCommits is what bbolt does with the bytes of commands when one goroutine
// commits for all callers.
type groupCommits struct {
	dir  string
	puts chan put
	seq  [commandCallers]uint64 // the last one of each caller
}

// put is one change that waits for its commit.
type put struct {
	thread string
	seq    uint64
	done   chan error
}

func newGroupCommits(t *testing.T) *groupCommits {
	t.Helper()
	g := &groupCommits{dir: t.TempDir(), puts: make(chan put, commandCallers)}
	db, err := bolt.Open(filepath.Join(g.dir, "raw.db"), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var committer sync.WaitGroup
	committer.Go(func() { g.run(db) })
	t.Cleanup(func() {
		close(g.puts)
		committer.Wait()
		db.Close()
	})
	return g
}

// change writes to the caller's own thread.
func (g *groupCommits) change(caller int) error {
	g.seq[caller]++
	return g.commit(fmt.Sprintf("t%016d", caller), g.seq[caller])
}

// create makes a folder and writes to a new thread.
func (g *groupCommits) create(caller int) error {
	g.seq[caller]++
	id := fmt.Sprintf("t%08d%08d", caller, g.seq[caller])
	if err := os.Mkdir(filepath.Join(g.dir, id), 0o700); err != nil {
		return err
	}
	return g.commit(id, 1)
}

func (g *groupCommits) commit(thread string, seq uint64) error {
	p := put{thread, seq, make(chan error, 1)}
	g.puts <- p
	return <-p.done
}

// run commits all that waits, then the next.
func (g *groupCommits) run(db *bolt.DB) {
	for first := range g.puts {
		batch := []put{first}
		for more := true; more; {
			select {
			case p, open := <-g.puts:
				if more = open; open {
					batch = append(batch, p)
				}
			default:
				more = false
			}
		}
		err := db.Update(func(tx *bolt.Tx) error {
			for _, p := range batch {
				if err := rawPut(tx, p.thread, p.seq); err != nil {
					return err
				}
			}
			return nil
		})
		for _, p := range batch {
			p.done <- err
		}
	}
}

// rawPut writes what a command writes: the record and its events.
func rawPut(tx *bolt.Tx, thread string, seq uint64) error {
	records, err := tx.CreateBucketIfNotExists([]byte("records"))
	if err != nil {
		return err
	}
	events, err := tx.CreateBucketIfNotExists([]byte("events"))
	if err != nil {
		return err
	}
	if err := records.Put([]byte(thread), make([]byte, recordBytes)); err != nil {
		return err
	}
	return events.Put(fmt.Appendf(nil, "%s\x00%08d", thread, seq), make([]byte, eventBytes))
}
