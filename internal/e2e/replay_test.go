package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Sizes of the replay tests.
const (
	bigTurns   = 70
	bigText    = 100_000 // times bigTurns, more than the buffers between a daemon and its client hold
	keptFew    = 120     // stored events that are kept, about eight turns
	trimTurns  = 60
	mostBehind = 16 // turns that a client misses before it comes back
)

// busyThread is a thread whose every event is seen by a client that is never behind.
type busyThread struct {
	*witness
	asking *conn
	turns  int
	truth  []event // stored ones
}

func newBusyThread(t *testing.T, d *daemon) *busyThread {
	t.Helper()
	b := &busyThread{asking: d.dial()}
	b.witness = newWitness(newThread(t, b.asking), true)
	if err := b.asking.call("subscribe_thread", object{"threadId": b.id, "afterSeq": 0}, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// turn runs a turn and takes all of its events.
func (b *busyThread) turn(text string) error {
	b.turns++
	op := fmt.Sprint("op-", b.turns)
	if err := b.asking.call("send_text", object{"threadId": b.id, "operationId": op, "message": text}, nil); err != nil {
		return err
	}
	events, err := b.asking.until(patience, func(e event) bool { return e.Type == "operation_completed" && e.OperationID == op })
	for _, e := range events {
		if err := b.told(e); err != nil {
			return err
		}
		if e.Type != "assistant_delta" {
			b.truth = append(b.truth, e)
		}
	}
	return err
}

// TestSubscribersThatFallBehindTheRingReadTheJournal lets clients read nothing
// until far more was told than is kept in memory and in the buffers on the way,
// while they stay connected. They get every stored event all the same.
func TestSubscribersThatFallBehindTheRingReadTheJournal(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	writeSettings(t, home, object{"retention": object{"journalBytes": 1 << 30}})
	d := start(t, home, "PEDELEC_DURATIONS=write-timeout=60s")
	b := newBusyThread(t, d)
	for _, via := range transports {
		gate := make(chan struct{})
		c, err := via.open(d.info, func(nc *net.TCPConn) net.Conn {
			return newGated(nc, gate)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		var cut struct {
			Snapshot snapshot `json:"snapshot"`
		}
		if err := c.call("subscribe_thread", object{"threadId": b.id}, &cut); err != nil {
			t.Fatal(err)
		}
		for range bigTurns {
			if err := b.turn("echo " + strings.Repeat("x", bigText)); err != nil {
				t.Fatal(err)
			}
		}
		close(gate)
		last := b.truth[len(b.truth)-1].Seq
		events, err := c.until(patience, func(e event) bool { return e.Seq == last })
		if err != nil {
			t.Fatalf("over %s: %v after %d events", via, err, len(events))
		}
		var stored []event
		deltas := 0
		for _, e := range events {
			if err := b.told(e); err != nil {
				t.Error(err)
			}
			if e.Type == "assistant_delta" {
				deltas++
			} else {
				stored = append(stored, e)
			}
		}
		want := slices.DeleteFunc(slices.Clone(b.truth), func(e event) bool { return e.Seq <= cut.Snapshot.LatestSeq })
		if i := firstDifference(stored, want); i >= 0 {
			t.Errorf("over %s %d stored events came, %d were told; they differ from event %d on", via, len(stored), len(want), i)
		}
		if deltas >= len(b.deltas) {
			t.Errorf("over %s all %d deltas came: the client never was behind what memory holds", via, deltas)
		}
	}
}

// TestReplaysBehindTheJournalsEndSayThatTheyAreTruncated lets clients drop their
// connections and stay away for longer than events are kept. What they miss is
// only what a truncated replay has told them to miss.
func TestReplaysBehindTheJournalsEndSayThatTheyAreTruncated(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	writeSettings(t, home, object{"retention": object{"journalEvents": keptFew}})
	d := start(t, home)
	b := newBusyThread(t, d)
	var all []*follower
	var running sync.WaitGroup
	var progress []chan struct{} // a turn each
	for _, via := range transports {
		for n := range 3 {
			f := &follower{via: via, daemon: &revived{t: t, d: d}, witness: b.witness, rng: rand.New(rand.NewPCG(uint64(n), uint64(len(via))))}
			turns := make(chan struct{}, trimTurns)
			all, progress = append(all, f), append(progress, turns)
			running.Go(func() {
				open := true
				for open {
					// A daemon that cannot go on closes the connection, as dropping does.
					if err := f.follow(1+f.rng.IntN(maxLeash), never); !errors.Is(err, errLeash) && !errors.Is(err, errClosed) {
						t.Error(err)
						return
					}
					f.drops++
					for away := f.rng.IntN(mostBehind); away > 0 && open; away-- {
						_, open = <-turns
					}
				}
			})
		}
	}
	for range trimTurns {
		if err := b.turn(burst); err != nil {
			t.Fatal(err)
		}
		for _, turns := range progress {
			turns <- struct{}{}
		}
	}
	for _, turns := range progress {
		close(turns)
	}
	running.Wait()
	truncated := 0
	for _, f := range all {
		if err := f.catchUp(b.truth[len(b.truth)-1].Seq); err != nil {
			t.Errorf("catching up: %v", err)
			continue
		}
		truncated += len(f.truncated)
		if err := f.missedOnly(b.truth); err != nil {
			t.Errorf("over %s, after %d drops: %v", f.via, f.drops, err)
		}
	}
	if truncated == 0 {
		t.Error("no replay was truncated, so nothing was shown")
	}
	t.Logf("%d stored events, %d truncated replays", len(b.truth), truncated)
}

// missedOnly compares what came with all that was told: an event may be missing
// only behind a number at which a replay was truncated.
func (f *follower) missedOnly(truth []event) error {
	gaps := f.truncated
	var last uint64
	rest := f.durable
	for _, want := range truth {
		switch {
		case len(rest) > 0 && rest[0].Seq == want.Seq && sameEvent(rest[0], want):
			last, rest = want.Seq, rest[1:]
			for len(gaps) > 0 && gaps[0] < last {
				gaps = gaps[1:]
			}
		case len(gaps) == 0 || gaps[0] < last:
			return fmt.Errorf("number %d did not come, the one before was %d, and no replay told of it", want.Seq, last)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("number %d came and was never told to others", rest[0].Seq)
	}
	return nil
}

// TestSubscribersWhoseEventsAreTrimmedAreDisconnected lets a connected client be so
// far behind that the journal has dropped what it lacks. It gets what is still
// there without a gap, and then the end of its connection, which makes it ask anew.
func TestSubscribersWhoseEventsAreTrimmedAreDisconnected(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	writeSettings(t, home, object{"retention": object{"journalEvents": 10}})
	d := start(t, home, "PEDELEC_DURATIONS=write-timeout=60s")
	b := newBusyThread(t, d)
	gate := make(chan struct{})
	var late []*conn
	for _, via := range transports {
		c, err := via.open(d.info, func(nc *net.TCPConn) net.Conn { return newGated(nc, gate) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.call("subscribe_thread", object{"threadId": b.id, "afterSeq": 0}, nil); err != nil {
			t.Fatal(err)
		}
		late = append(late, c)
	}
	for range bigTurns {
		if err := b.turn("echo " + strings.Repeat("x", bigText)); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	for i, c := range late {
		events, err := c.until(patience, never)
		if !errors.Is(err, errClosed) {
			t.Errorf("over %s, after %d events: %v, want the connection to be closed", transports[i], len(events), err)
		}
		stored := slices.DeleteFunc(events, func(e event) bool { return e.Type == "assistant_delta" })
		if len(stored) >= len(b.truth) {
			t.Errorf("over %s all %d events came: nothing was trimmed", transports[i], len(stored))
		} else if at := firstDifference(stored, b.truth[:len(stored)]); at >= 0 {
			t.Errorf("over %s event %d is not the one that was told", transports[i], at)
		}
		late[i].Close()
	}
}
