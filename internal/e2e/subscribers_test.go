package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	liveSubscribers = 99 // beside one that never reads
	fillingTurns    = 7  // of 800 kB that are stored: more than the buffers on the way hold
)

// listener takes the events of a thread and keeps those that are stored. It parses
// little, since there are many.
type listener struct {
	via    transport
	c      *conn
	stored [][]byte // lines
	err    error
}

var seqMember = []byte(`"seq":`)

// run takes events until so many operations are over.
func (l *listener) run(operations int) {
	var last uint64
	for operations > 0 && l.err == nil {
		var line []byte
		if line, l.err = l.c.line(patience); l.err != nil {
			return
		}
		head := line[:min(len(line), 200)]
		_, after, _ := bytes.Cut(head, seqMember)
		digits, _, _ := bytes.Cut(after, []byte(","))
		seq, err := strconv.ParseUint(string(digits), 10, 64)
		if err != nil || seq <= last {
			l.err = fmt.Errorf("behind number %d came %s", last, clip(line))
			return
		}
		last = seq
		if bytes.Contains(head, deltaKind) {
			continue
		}
		l.stored = append(l.stored, line)
		if bytes.Contains(line, completedKind) {
			operations--
		}
	}
}

// check compares what came with the events that were told behind a number.
func (l *listener) check(t *testing.T, truth []event) {
	t.Helper()
	if l.err != nil {
		t.Errorf("over %s, after %d stored events: %v", l.via, len(l.stored), l.err)
		return
	}
	var got []event
	for _, line := range l.stored {
		m, err := parseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		e, err := parseEvent(m.Event)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := truth
	for len(want) > 0 && len(got) > 0 && want[0].Seq < got[0].Seq {
		want = want[1:] // told before the subscription
	}
	if i := firstDifference(got, want); i >= 0 || len(got) == 0 {
		t.Errorf("over %s: %d stored events came; event %d is not the one that was told", l.via, len(got), i)
	}
}

// join subscribes to a thread behind its creation.
func join(t *testing.T, d *daemon, via transport, id string, wrap func(*net.TCPConn) net.Conn) *listener {
	t.Helper()
	c, err := via.open(d.info, wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.call("subscribe_thread", object{"threadId": id, "afterSeq": 2}, nil); err != nil {
		t.Fatal(err)
	}
	return &listener{via: via, c: c}
}

// TestOneSubscriberThatNeverReadsCostsTheOthersNothing lets many subscribers of a
// thread listen beside one that does not: they get every stored event in order,
// and it is cut.
func TestOneSubscriberThatNeverReadsCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	const turns = 10
	for _, via := range transports {
		t.Run(string(via), func(t *testing.T) {
			d := start(t, newHome(t), "PEDELEC_DURATIONS=write-timeout=3s")
			b, filling := newBusyThread(t, d), newBusyThread(t, d)
			never := make(chan struct{})
			stalled := join(t, d, via, b.id, func(nc *net.TCPConn) net.Conn { return newGated(nc, never) })
			if err := stalled.c.call("subscribe_thread", object{"threadId": filling.id, "afterSeq": 2}, nil); err != nil {
				t.Fatal(err)
			}
			var live []*listener
			var running sync.WaitGroup
			for range liveSubscribers {
				l := join(t, d, via, b.id, nil)
				live = append(live, l)
				running.Go(func() { l.run(turns) })
			}
			// What only the stalled one hears fills the buffers on its way.
			for range fillingTurns {
				if err := filling.turn("stream 80 of 10000"); err != nil {
					t.Fatal(err)
				}
			}
			for range turns {
				if err := b.turn("stream 50 of 200 ; message one | two | three"); err != nil {
					t.Fatal(err)
				}
			}
			running.Wait()
			for _, l := range live {
				l.check(t, b.truth)
			}
			// The clients that listen all the time are the two more.
			if err := awaitMetrics(d, map[string]float64{"pedelec_ipc_cut_clients_total": 1, "pedelec_ipc_subscriptions": liveSubscribers + 2}); err != nil {
				t.Error(err)
			}
			if log, err := os.ReadFile(d.log); err != nil || !bytes.Contains(log, []byte("a client that did not read was cut")) {
				t.Errorf("the log does not tell of it: %v", err)
			}
			for _, l := range append(live, stalled) {
				l.c.Close()
			}
			b.asking.Close()
			filling.asking.Close()
			if err := awaitMetrics(d, map[string]float64{"pedelec_ipc_subscriptions": 0, "pedelec_ipc_connections": 0, "pedelec_ipc_websockets": 0, "pedelec_ipc_panics_total": 0}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSlowAndQuickSubscribersOfManyThreadsGetEverything mixes clients that read a
// byte at a time with others.
func TestSlowAndQuickSubscribersOfManyThreadsGetEverything(t *testing.T) {
	t.Parallel()
	const threads, subscribers, turns = 5, 8, 4
	d := start(t, newHome(t))
	slowly := func(nc *net.TCPConn) net.Conn { return sips{nc} }
	var all sync.WaitGroup
	for range threads {
		b := newBusyThread(t, d)
		var heard []*listener
		var hearing sync.WaitGroup
		for n := range subscribers {
			var wrap func(*net.TCPConn) net.Conn
			if n%4 >= 2 {
				wrap = slowly
			}
			l := join(t, d, transports[n%2], b.id, wrap)
			heard = append(heard, l)
			hearing.Go(func() { l.run(turns) })
		}
		all.Go(func() {
			for range turns {
				if err := b.turn("stream 50 of 200 ; message one | two | three | " + strings.Repeat("four", 2000)); err != nil {
					t.Error(err)
					break
				}
			}
			hearing.Wait()
			for _, l := range heard {
				l.check(t, b.truth)
			}
		})
	}
	all.Wait()
	if m, err := readMetrics(d); err != nil || m["pedelec_ipc_cut_clients_total"] != 0 {
		t.Errorf("%v clients were cut: %v", m["pedelec_ipc_cut_clients_total"], err)
	}
}

// TestQuietSubscribersAreNeverCut leaves subscribers alone for longer than it takes
// to find one that is gone.
func TestQuietSubscribersAreNeverCut(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t), "PEDELEC_DURATIONS=keep-alive=1s;ping=500ms;pong=3s;first-request=3s")
	clock := newPage(t, d, nil)
	var quiet []*conn
	id := newThread(t, clock.c)
	for _, via := range transports {
		c, err := via.open(d.info, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.call("subscribe_thread", object{"threadId": id}, nil); err != nil {
			t.Fatal(err)
		}
		quiet = append(quiet, c)
	}
	clock.finish(clock.send("wait 5s"))
	clock.must(clock.c.call("end_thread", object{"threadId": id}, nil))
	for i, c := range quiet {
		if _, err := c.until(patience, func(e event) bool { return e.Type == "ended" }); err != nil {
			t.Errorf("over %s: %v", transports[i], err)
		}
	}
}

// Sizes of the test of subscriptions that come and go.
const (
	wantedSubscriptions = 10_000
	subscribingClients  = 8
	watchedThreads      = 25 // of one connection
)

// TestTenThousandSubscriptionsLeaveNothingBehind makes and drops subscriptions in
// every way: by unsubscribing, by another one of the same thread, by a close, by a
// reset, and by the end and the deletion of the thread.
func TestTenThousandSubscriptionsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t), "PEDELEC_DURATIONS=linger=50ms")
	c := d.dial()
	var ids []string
	for range watchedThreads {
		ids = append(ids, newThread(t, c))
	}
	c.Close()
	held := map[string]float64{"pedelec_ipc_subscriptions": 0, "pedelec_ipc_connections": 0, "pedelec_ipc_websockets": 0, "pedelec_threads_loaded": 0}
	if err := awaitMetrics(d, held); err != nil {
		t.Fatal(err)
	}
	before, err := readMetrics(d)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range subscribingClients {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		all.Go(func() {
			for range wantedSubscriptions / subscribingClients / (watchedThreads + 1) {
				if err := comeAndGo(d, transports[rng.IntN(2)], ids, rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := awaitMetrics(d, held); err != nil {
		t.Error(err)
	}
	var after map[string]float64
	if err := waitFor(patience, "goroutines and files to be given back", func() (bool, error) {
		after, err = readMetrics(d)
		return after["go_goroutines"] <= before["go_goroutines"] && after["process_open_fds"] <= before["process_open_fds"], err
	}); err != nil {
		t.Errorf("%v: %v goroutines were %v, %v files were %v", err, after["go_goroutines"], before["go_goroutines"], after["process_open_fds"], before["process_open_fds"])
	}
	if made := after["pedelec_ipc_requests_total"]; made < wantedSubscriptions {
		t.Errorf("only %v requests were made", made)
	}
}

// comeAndGo makes a subscription of each thread on one connection, and one of a
// thread of its own that is deleted, and drops them in some way.
func comeAndGo(d *daemon, via transport, ids []string, rng *rand.Rand) error {
	var held *leash
	c, err := via.open(d.info, func(nc *net.TCPConn) net.Conn {
		held = &leash{TCPConn: nc, left: 1 << 30, abrupt: rng.IntN(2) == 0}
		return held
	})
	if err != nil {
		return err
	}
	defer c.Close()
	var own snapshot
	errs := []error{c.call("create_thread", object{"provider": "opencode"}, &own)}
	subscribe := func(id string) {
		errs = append(errs, c.call("subscribe_thread", object{"threadId": id, "afterSeq": 0}, nil))
	}
	for _, id := range ids {
		subscribe(id)
	}
	subscribe(own.ThreadID)
	if rng.IntN(4) == 0 {
		subscribe(ids[0])
	}
	for _, kind := range []string{"end_thread", "delete_thread"} {
		errs = append(errs, c.call(kind, object{"threadId": own.ThreadID}, nil))
	}
	if rng.IntN(3) == 0 {
		for _, id := range ids {
			errs = append(errs, c.call("unsubscribe_thread", object{"threadId": id}, nil))
		}
	}
	return errors.Join(errs...)
}
