package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// Sizes of the reconnection test.
const (
	wantedDrops  = 1000
	followersPer = 4       // a transport
	maxLeash     = 12_000  // bytes that a client reads before it drops its connection
	keptEvents   = 200_000 // so that nothing is trimmed
)

// burst is a turn of stored messages and text that is not stored.
const burst = "message one | two | three | four | five | six ; stream 40 of 20 ; message seven | eight ; stream 20 of 200"

// revived is a daemon that is killed and started again while clients use it.
type revived struct {
	t    *testing.T
	home string
	mu   sync.RWMutex // held while there is no daemon
	d    *daemon
	life int
}

// at returns where the daemon is, and which of its lives it is in.
func (r *revived) at() (runtimeFile, int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.d.info, r.life
}

func (r *revived) revive() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.d.kill()
	r.d = start(r.t, r.home)
	r.life++
}

// follower is a client that follows a thread over many connections.
type follower struct {
	via     transport
	daemon  *revived
	witness *witness
	rng     *rand.Rand

	last      uint64   // number of the last event that came, stored or not
	durable   []event  // those that are stored
	truncated []uint64 // numbers behind which a replay could not reach back
	drops     int
}

// follow takes events over one connection. It returns errLeash if the client
// dropped it, and errLost if the daemon was killed meanwhile.
func (f *follower) follow(reach int, done func(event) bool) error {
	at, life := f.daemon.at()
	held := &leash{left: reach, abrupt: f.rng.IntN(2) == 0}
	c, err := f.via.open(at, func(nc *net.TCPConn) net.Conn {
		held.TCPConn = nc
		return held
	})
	if err == nil {
		defer c.Close()
		err = f.listen(c, done)
	}
	if err == nil {
		return nil
	}
	if gone := errors.Is(err, errClosed) || c == nil; gone && held.left <= 0 {
		return errLeash
	}
	if _, now := f.daemon.at(); now != life {
		return errLost
	}
	return fmt.Errorf("over %s, behind %d: %w", f.via, f.last, err)
}

// listen subscribes behind the last event that came and takes what follows.
func (f *follower) listen(c *conn, done func(event) bool) error {
	var got struct {
		Snapshot snapshot `json:"snapshot"`
		Replay   struct {
			FromSeq   uint64 `json:"fromSeq"`
			ToSeq     uint64 `json:"toSeq"`
			Truncated bool   `json:"truncated"`
		} `json:"replay"`
	}
	if err := c.call("subscribe_thread", object{"threadId": f.witness.id, "afterSeq": f.last}, &got); err != nil {
		return err
	}
	if got.Snapshot.LatestSeq < f.last || got.Replay.FromSeq != f.last+1 || got.Replay.ToSeq != got.Snapshot.LatestSeq {
		return fmt.Errorf("the replay is %+v, the snapshot's number %d", got.Replay, got.Snapshot.LatestSeq)
	}
	if got.Replay.Truncated {
		f.truncated = append(f.truncated, f.last)
	}
	for {
		e, err := c.takeEvent(patience)
		if err != nil {
			return err
		}
		if e.Seq <= f.last {
			return fmt.Errorf("number %d came again: %s", e.Seq, e.raw)
		}
		if err := f.witness.told(e); err != nil {
			return err
		}
		f.last = e.Seq
		if e.Type != "assistant_delta" {
			f.durable = append(f.durable, e)
		}
		if done(e) {
			return nil
		}
	}
}

func never(event) bool { return false }

// dropAgainAndAgain drops so many connections in the middle of whatever comes.
func (f *follower) dropAgainAndAgain(count int, dropped *atomic.Int64) error {
	for f.drops < count {
		switch err := f.follow(1+f.rng.IntN(maxLeash), never); {
		case errors.Is(err, errLeash):
			f.drops++
			dropped.Add(1)
		case !errors.Is(err, errLost):
			return err
		}
	}
	return nil
}

// catchUp takes all that is left, up to a number.
func (f *follower) catchUp(last uint64) error {
	if f.last >= last {
		return nil
	}
	return f.follow(maxOutgoingLine*100, func(e event) bool { return e.Seq >= last })
}

// TestAThousandDroppedConnectionsLoseNothing lets clients follow a thread that is
// always busy, drop their connections at any byte, by closing or by a reset, and
// come back with the number of the last event that they have; the daemon is killed
// in between. In the end each has every stored event, once and in order.
func TestAThousandDroppedConnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	writeSettings(t, home, object{"retention": object{"journalEvents": keptEvents, "journalBytes": 1 << 30}})
	r := &revived{t: t, home: home, d: start(t, home)}
	asking := r.d.dial()
	var created snapshot
	workspace := filepath.Join(filepath.Dir(home), "work") // so that the thread outlives the daemon
	if err := asking.call("create_thread", object{"provider": "opencode", "workspace": object{"path": workspace}}, &created); err != nil {
		t.Fatal(err)
	}
	w := newWitness(created.ThreadID, false)
	var all []*follower
	for _, via := range transports {
		for n := range followersPer {
			all = append(all, &follower{via: via, daemon: r, witness: w, rng: rand.New(rand.NewPCG(uint64(n), uint64(len(via))))})
		}
	}
	var dropped atomic.Int64
	var running sync.WaitGroup
	finished := make(chan struct{})
	for _, f := range all {
		running.Go(func() {
			if err := f.dropAgainAndAgain(wantedDrops/len(all), &dropped); err != nil {
				t.Error(err)
			}
		})
	}
	go func() {
		running.Wait()
		close(finished)
	}()
	turn := func(n int, kill bool) error {
		op := fmt.Sprint("op-", n)
		if err := asking.call("send_text", object{"threadId": w.id, "operationId": op, "message": burst}, nil); err != nil {
			return err
		}
		w.admitted(op)
		_, err := asking.until(patience, func(e event) bool {
			return e.OperationID == op && (e.Type == "operation_completed" || kill && e.Type == "assistant_message")
		})
		return err
	}
	listen := func() {
		t.Helper()
		if err := asking.call("subscribe_thread", object{"threadId": w.id}, nil); err != nil {
			t.Fatal(err)
		}
	}
	listen()
	turns, kills := 0, 0
	for busy := true; busy; turns++ {
		kill := dropped.Load() > int64(kills+1)*wantedDrops/4
		if err := turn(turns, kill); err != nil {
			t.Fatalf("turn %d: %v", turns, err)
		}
		if kill {
			kills++
			r.revive()
			asking = r.d.dial()
			listen()
			if err := waitFor(patience, "the interrupted turn to be over", func() (bool, error) {
				var s snapshot
				err := asking.call("thread_snapshot", object{"threadId": w.id}, &s)
				return s.Status == "idle", err
			}); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-finished:
			busy = false
		default:
		}
	}
	journal, err := w.journal(asking, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.compare(journal); err != nil {
		t.Error(err)
	}
	for _, f := range all {
		if err := f.catchUp(journal[len(journal)-1].Seq); err != nil {
			t.Errorf("catching up: %v", err)
			continue
		}
		if len(f.truncated) > 0 {
			t.Errorf("over %s a replay was truncated, though everything is kept", f.via)
		}
		if i := firstDifference(f.durable, journal); i >= 0 {
			t.Errorf("over %s, after %d drops: %d stored events came, %d are in the journal; they differ from event %d on", f.via, f.drops, len(f.durable), len(journal), i)
		}
	}
	t.Logf("%d drops, %d kills, %d turns, %d stored events, %d deltas seen", dropped.Load(), kills, turns, len(journal), len(w.deltas))
}

// firstDifference returns where two series of events part, or -1.
func firstDifference(got, want []event) int {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i].Seq != want[i].Seq || !sameEvent(got[i], want[i]) {
			return i
		}
	}
	return -1
}

func sameEvent(a, b event) bool {
	if slices.Equal(a.raw, b.raw) {
		return true
	}
	x, err1 := essence(a.raw)
	y, err2 := essence(b.raw)
	return err1 == nil && err2 == nil && x == y
}
