package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Sizes of the measurements of this file.
const (
	latencyDeltas  = 2_000
	latencyPause   = time.Millisecond
	floodThreads   = 64
	floodDeltas    = 100_000 // a thread
	fanClients     = 100
	fanDeltas      = 50_000
	stalledDeltas  = 750
	stalledBytes   = 4 << 10
	stalledRounds  = 9
	fillingDeltas  = 1_500 // of stalledBytes: more than the buffers on the way hold
	fillingPause   = 200 * time.Microsecond
	streamPatience = 3 * time.Minute
)

// Targets.
const (
	latencyP50Target = 150 * time.Microsecond
	latencyP99Target = 2 * time.Millisecond
	deltaRateTarget  = 500_000
	stalledTarget    = 1.1
	heldTarget       = 1 << 20 // bytes
)

// benchDaemon is a daemon whose agent is the benchmarks' own.
func benchDaemon(t *testing.T, env ...string) *daemon {
	t.Helper()
	command, err := helperCommand("agent")
	if err != nil {
		t.Fatal(err)
	}
	home := newHome(t)
	writeSettings(t, home, object{"providerSettings": object{"opencode": object{"command": command}}})
	return start(t, home, env...)
}

func newThread(t testing.TB, c *conn) string {
	t.Helper()
	var created struct {
		ThreadID string `json:"threadId"`
	}
	if err := c.call("create_thread", object{"provider": "opencode"}, &created); err != nil {
		t.Fatal(err)
	}
	return created.ThreadID
}

// listen subscribes with a bare socket and returns it behind the response.
func listen(t *testing.T, d *daemon, id string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", d.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, `{"requestId":"s","type":"subscribe_thread","payload":{"threadId":%q}}`+"\n", id); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(c, 256<<10)
	if err := c.SetReadDeadline(time.Now().Add(streamPatience)); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadSlice('\n'); err != nil || !bytes.Contains(line, []byte(`"ok":true`)) {
		t.Fatalf("subscribe: %s %v", line, err)
	}
	return c, r
}

var (
	textMember      = []byte(`"text":"`)
	deltaKind       = []byte(`"assistant_delta"`)
	completedKind   = []byte(`"operation_completed"`)
	failedOperation = []byte(`"success":false`)
)

// stampsIn returns the ages of the time stamps in a line.
func stampsIn(line []byte, now time.Time) samples {
	i := bytes.Index(line, textMember)
	if i < 0 {
		return nil
	}
	rest := line[i+len(textMember):]
	if end := bytes.IndexByte(rest, '"'); end >= 0 {
		rest = rest[:end]
	}
	var all samples
	for word := range bytes.FieldsSeq(rest) {
		if n, err := strconv.ParseInt(string(word), 10, 64); err == nil {
			all = append(all, now.Sub(time.Unix(0, n)))
		}
	}
	return all
}

// ages reads a stream of stamped deltas to the end of its turn.
func ages(r *bufio.Reader) (samples, error) {
	var all samples
	for {
		line, err := r.ReadSlice('\n')
		now := time.Now()
		if errors.Is(err, bufio.ErrBufferFull) {
			continue // a long message; its end comes
		}
		if err != nil {
			return all, err
		}
		switch {
		case bytes.Contains(line, deltaKind):
			all = append(all, stampsIn(line, now)...)
		case bytes.Contains(line, completedKind):
			if bytes.Contains(line, failedOperation) {
				return all, fmt.Errorf("the turn failed: %s", line)
			}
			return all, nil
		}
	}
}

func benchLatency(t *testing.T, r *report) {
	d := benchDaemon(t)
	c := d.dial()
	id := newThread(t, c)
	// The first turn starts the agent and is not measured.
	var ours, bare samples
	for i, text := range []string{"stamp 10 every 1ms of 0", fmt.Sprintf("stamp %d every %v of 0", latencyDeltas, latencyPause)} {
		socket, reader := listen(t, d, id)
		if err := c.call("send_text", object{"threadId": id, "operationId": fmt.Sprint("op-", i), "message": text}, nil); err != nil {
			t.Fatal(err)
		}
		got, err := ages(reader)
		socket.Close()
		if err != nil {
			t.Fatal(err)
		}
		ours = got
	}
	bare = copyLoop(t)
	a, b := ours.median(), bare.median()
	added50, added99 := a-b, ours.at(0.99)-bare.at(0.99)
	r.add(figure{
		id: "N5", what: "agent's line → client's socket, text delta, added at p50", value: us(added50) + " (" + us(a) + ")", baseline: us(b) + ", pipe and socket copy loop",
		ratio: ratio(a, b), target: "≤ 150 µs added", reached: added50 <= latencyP50Target,
	})
	r.add(figure{
		id: "N5", what: "the same, added at p99", value: us(added99) + " (" + us(ours.at(0.99)) + ")", baseline: us(bare.at(0.99)),
		ratio: ratio(ours.at(0.99), bare.at(0.99)), target: "≤ 2 ms added", reached: added99 <= latencyP99Target,
	})
}

// copyLoop measures stamped lines that go from a process through a pipe and are
// copied to a socket.
func copyLoop(t *testing.T) samples {
	t.Helper()
	args, err := helperCommand("lines", strconv.Itoa(latencyDeltas), latencyPause.String())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(args[0], args[1:]...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	reading, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	writing, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		defer writing.Close()
		// A plain pair of calls; io.Copy would splice inside the kernel.
		_, _ = io.Copy(struct{ io.Writer }{writing}, struct{ io.Reader }{stdout})
	})
	var all samples
	lines := bufio.NewReader(reading)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			break
		}
		all = append(all, stampsIn(line, time.Now())...)
	}
	copying.Wait()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return all
}

// countTokens reads to the end of a turn and returns how many deltas came.
func countTokens(r *bufio.Reader) (int, error) {
	n := 0
	delta := false
	for fresh := true; ; {
		line, err := r.ReadSlice('\n')
		partial := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !partial {
			return n, err
		}
		if fresh {
			delta = bytes.Contains(line[:min(len(line), 200)], deltaKind)
		}
		fresh = !partial
		if delta {
			n += bytes.Count(line, []byte{floodMark})
			continue
		}
		if bytes.Contains(line, completedKind) {
			if bytes.Contains(line, failedOperation) {
				return n, fmt.Errorf("the turn failed: %s", line)
			}
			return n, nil
		}
	}
}

// flood runs floods on several threads with some clients each and returns the
// deltas that were delivered, and the time.
func flood(t *testing.T, d *daemon, threads, clients, deltas int) (delivered int64, took time.Duration) {
	t.Helper()
	c := d.dial()
	ids := make([]string, threads)
	for i := range ids {
		ids[i] = newThread(t, c)
		if err := c.call("subscribe_thread", object{"threadId": ids[i]}, nil); err != nil {
			t.Fatal(err)
		}
		// Opens the session, so that it is not measured.
		if err := c.call("send_text", object{"threadId": ids[i], "operationId": "warm", "message": "flood 100"}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" }); err != nil {
			t.Fatal(err)
		}
		if err := c.call("unsubscribe_thread", object{"threadId": ids[i]}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var total atomic.Int64
	var readers sync.WaitGroup
	for _, id := range ids {
		for range clients {
			socket, r := listen(t, d, id)
			readers.Go(func() {
				defer socket.Close()
				n, err := countTokens(r)
				total.Add(int64(n))
				if err != nil {
					t.Errorf("thread %s after %d deltas: %v", id, n, err)
				}
			})
		}
	}
	began := time.Now()
	for _, id := range ids {
		if err := c.call("send_text", object{"threadId": id, "operationId": "flood", "message": fmt.Sprint("flood ", deltas)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	readers.Wait()
	return total.Load(), time.Since(began)
}

func benchDeltas(t *testing.T, r *report) {
	d := benchDaemon(t)
	flood(t, d, 1, 1, 10_000)
	before, err := anonymousMemory(d.cmd.Process.Pid)
	if err != nil {
		t.Skip(err)
	}
	n, took := flood(t, d, floodThreads, 1, floodDeltas)
	after, err := anonymousMemory(d.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	got := float64(n) / took.Seconds()
	share := float64(n) / float64(floodThreads*floodDeltas)
	r.add(figure{
		id: "N6", what: fmt.Sprintf("deltas delivered, %d threads × 1 subscriber (%.0f %% of those sent; memory %s → %s)", floodThreads, 100*share, mib(before), mib(after)),
		value: rate(got), target: "≥ 500,000 /s", reached: got >= deltaRateTarget,
	})
}

func benchFanOut(t *testing.T, r *report) {
	d := benchDaemon(t)
	n, took := flood(t, d, 1, fanClients, fanDeltas)
	got := float64(n) / took.Seconds()
	base := oneByOne(t)
	r.add(figure{
		id: "N7", what: fmt.Sprintf("fan-out, one thread, %d subscribers, deltas delivered", fanClients), value: rate(got), baseline: rate(base) + ", each delta written to each socket",
		ratio: got / base, target: "≥ 1 ×", reached: got >= base,
	})
}

// oneByOne measures writing each prepared delta to many sockets in turn.
func oneByOne(t *testing.T) float64 {
	t.Helper()
	const deltas = fanDeltas / 10
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var writing []net.Conn
	var total atomic.Int64
	var readers sync.WaitGroup
	for range fanClients {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		w, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		writing = append(writing, w)
		readers.Go(func() {
			defer c.Close()
			n, _ := countTokens(bufio.NewReaderSize(c, 256<<10)) // ends with the connection
			total.Add(int64(n))
		})
	}
	line := []byte(`{"type":"thread_event","event":{"type":"assistant_delta","seq":123456,"threadId":"t0123456789abcdef","operationId":"flood","text":"` + floodToken + `"}}` + "\n")
	began := time.Now()
	for range deltas {
		for _, w := range writing {
			if _, err := w.Write(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, w := range writing {
		w.Close()
	}
	readers.Wait()
	return float64(total.Load()) / time.Since(began).Seconds()
}

// liveAges measures the ages of deltas at many clients, beside some that never
// read and whose buffers are full from the beginning.
func liveAges(t *testing.T, d *daemon, clients, stalled int) samples {
	t.Helper()
	c := d.dial()
	defer c.Close()
	id := newThread(t, c)
	for range stalled {
		socket, err := net.Dial("tcp", d.info.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		if _, err := fmt.Fprintf(socket, `{"requestId":"s","type":"subscribe_thread","payload":{"threadId":%q}}`+"\n", id); err != nil {
			t.Fatal(err)
		}
	}
	send := func(op, text string) {
		if err := c.call("send_text", object{"threadId": id, "operationId": op, "message": text}, nil); err != nil {
			t.Fatal(err)
		}
	}
	first, r := listen(t, d, id)
	send("fill", fmt.Sprintf("stamp %d every %v of %d", fillingDeltas, fillingPause, stalledBytes))
	_, err := ages(r)
	first.Close()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all samples
	var readers sync.WaitGroup
	for range clients {
		socket, r := listen(t, d, id)
		readers.Go(func() {
			defer socket.Close()
			got, err := ages(r)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, got...)
			if err != nil {
				t.Error(err)
			}
		})
	}
	send("op", fmt.Sprintf("stamp %d every %v of %d", stalledDeltas, 4*latencyPause, stalledBytes))
	readers.Wait()
	return all
}

// benchStalled compares rounds with a stalled subscriber with rounds without one, in
// turns and each with its neighbour, since a machine is not equally busy all the time.
func benchStalled(t *testing.T, r *report) {
	d := benchDaemon(t)
	liveAges(t, d, 1, 0) // starts the agent
	const live = 99
	liveAges(t, d, live, 0) // so that the heap has its size
	var without, with samples
	var ratios []float64
	var held []int64
	for round := range stalledRounds {
		var p99 [2]time.Duration // by the number of stalled ones
		for _, stalled := range [][2]int{{0, 1}, {1, 0}}[round%2] {
			before, err := anonymousMemory(d.cmd.Process.Pid)
			if err != nil {
				t.Skip(err)
			}
			p99[stalled] = liveAges(t, d, live, stalled).at(0.99)
			after, err := anonymousMemory(d.cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			if stalled == 1 {
				held = append(held, max(0, after-before))
			}
		}
		without, with = append(without, p99[0]), append(with, p99[1])
		ratios = append(ratios, ratio(p99[1], p99[0]))
		t.Logf("round %d: p99 %s without, %s with, ratio %.2f", round+1, us(p99[0]), us(p99[1]), ratios[round])
	}
	slices.Sort(ratios)
	slices.Sort(held)
	middle := ratios[len(ratios)/2]
	r.add(figure{
		id: "N10", what: fmt.Sprintf("99 live subscribers beside one that never reads, p99 of a delta, median of %d rounds (ratios %.2f to %.2f)", stalledRounds, ratios[0], ratios[len(ratios)-1]),
		value: us(with.median()), baseline: us(without.median()) + ", without it",
		ratio: middle, target: "< 1.1 ×", reached: middle < stalledTarget,
	})
	r.add(figure{
		id: "N10", what: "memory held for it (growth of the daemon meanwhile, median)", value: strings.TrimSpace(mib(held[len(held)/2])), target: "≤ 1 MB", reached: held[len(held)/2] <= heldTarget,
	})
}
