package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// crashClients is how many clients put load on the daemon: some of each kind.
const crashClients = 5

// TestCrash kills the daemon again and again, at random moments and at every
// failpoint, under load and while it comes up from the last crash, and checks after
// each start that nothing that clients were told has become untrue.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	r := newCrash(t)
	for _, cl := range r.clients {
		cl.crashes = true
	}
	r.dieStarting("store.create.before") // met in an empty home only
	for n := range *crashRounds {
		r.round(n)
		r.progress(n)
		if t.Failed() {
			return
		}
	}
	r.last()
	r.points.judge(t)
	r.summary(underLoad, duringStart, elsewhere)
}

// crash is a run of the crash suite: a home, and clients that live longer than
// its daemons.
type crash struct {
	*testing.T
	rng     *rand.Rand
	began   time.Time
	told    time.Time // when it was said last how far it is
	home    string
	work    string
	clients []*client
	heard   atomic.Int64 // events that clients got
	tally   tally
	notes   *agentNotes
	points  *crashPlan
	kills   int
	orphans []int // processes of agents when earlier daemons had died

	startTime time.Duration // how long a start takes, about

	// What the next start finds.
	ledger    bool   // agents that ran when the last daemon was killed
	unsettled bool   // threads in turns, likely
	lastPoint string // where the last daemon was killed under load; "" = anywhere
}

// newCrash makes a home and clients for a run.
func newCrash(t *testing.T) *crash {
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -crash.seed=%d -crash.rounds=%d)", seed, seed, *crashRounds)
	r := &crash{T: t, rng: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), told: time.Now(), home: newHome(t), startTime: firstStart}
	writeSettings(t, r.home, object{"allowedOrigins": []string{crashOrigin}})
	t.Cleanup(func() { killOrphans(r.home) })
	r.notes = newAgentNotes(r.home)
	r.work = filepath.Join(filepath.Dir(r.home), "work")
	if err := os.Mkdir(r.work, 0o700); err != nil {
		t.Fatal(err)
	}
	r.points = newCrashPlan(t, r.rng)
	r.clients = newClients(crashClients, seed, r.work, &r.heard, &r.tally)
	return r
}

// last starts the daemon once more and checks that all is settled, and that it
// leaves cleanly.
func (r *crash) last() {
	d := start(r.T, r.home)
	if err := r.check(d); err != nil {
		r.Errorf("after the last round: %v", err)
		return
	}
	r.allCompleted(d)
	if err := oneTurn(d.dial()); err != nil {
		r.Errorf("a turn behind the last round: %v", err)
	}
	r.leaveCleanly(d)
	r.nothingHalfWritten()
}

// nothingHalfWritten checks that the home folder holds no file that a daemon was
// writing when it was killed.
func (r *crash) nothingHalfWritten() {
	entries, err := os.ReadDir(r.home)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.Contains(name, ".tmp") || strings.HasSuffix(name, ".new") || strings.HasSuffix(name, ".compact") {
			r.Errorf("%s was left half written", name)
		}
	}
}

// allCompleted checks that no operation of any thread is without its end.
func (r *crash) allCompleted(d *daemon) {
	c := d.operator()
	for _, cl := range r.clients {
		for _, w := range cl.threads {
			journal, err := w.journal(c, 0)
			if err == nil {
				err = completedAll(journal)
			}
			if err != nil {
				r.Errorf("%s: %v", w.id, err)
			}
		}
	}
}

// leaveCleanly tells the last daemon to leave.
func (r *crash) leaveCleanly(d *daemon) {
	if code, err := d.stop(); err != nil || code != 0 {
		r.Errorf("the last daemon left with %d: %v", code, err)
	}
	if err := waitFor(orphanLimit, "all agents to be gone", func() (bool, error) { return len(agents(r.home)) == 0, nil }); err != nil {
		r.Errorf("%v: %v", err, agents(r.home))
	}
}

// oneTurn runs a turn of a new thread and says what kept it from succeeding.
func oneTurn(c *conn) error {
	var made struct {
		ThreadID string `json:"threadId"`
	}
	if err := c.call("create_thread", object{"provider": "opencode"}, &made); err != nil {
		return err
	}
	if err := c.call("subscribe_thread", object{"threadId": made.ThreadID}, nil); err != nil {
		return err
	}
	if err := c.call("send_text", object{"threadId": made.ThreadID, "message": "echo it still works"}, nil); err != nil {
		return err
	}
	events, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" })
	if err != nil {
		return err
	}
	if last := events[len(events)-1]; !last.Success {
		return fmt.Errorf("it did not succeed: %w", asError(last.Err))
	}
	return nil
}

// check compares what clients know with what a fresh daemon says.
func (r *crash) check(d *daemon) error {
	began := time.Now()
	c, err := open(d.info.Endpoint)
	if err != nil {
		return errLost
	}
	defer c.Close()
	c.token = d.info.Token
	if err := r.compare(c, true); err != nil {
		return err
	}
	for _, cl := range r.clients {
		cl.retired = nil
	}
	r.unsettled = false
	return r.noOrphans(orphanLimit - time.Since(began))
}

// compare asks about every thread that clients know.
func (r *crash) compare(c *conn, restarted bool) error {
	if err := r.notes.catchUp(); err != nil {
		return err
	}
	for _, cl := range r.clients {
		for _, w := range slices.Concat(cl.threads, cl.retired) {
			if err := w.verify(c, cl.rng, r.notes, restarted); err != nil {
				return err
			}
		}
	}
	return nil
}

// noOrphans waits until no process of earlier daemons' agents lives.
func (r *crash) noOrphans(within time.Duration) error {
	if len(r.orphans) == 0 {
		return nil
	}
	err := waitFor(within, "the last daemon's agents to be gone", func() (bool, error) {
		now := agents(r.home)
		return !slices.ContainsFunc(r.orphans, func(pid int) bool { return slices.Contains(now, pid) }), nil
	})
	if err != nil {
		return fmt.Errorf("%w: %v", err, r.orphans)
	}
	r.orphans = nil
	return nil
}

// lies fails the test for each client that was told what cannot be.
func (r *crash) lies(where string) {
	for _, cl := range r.clients {
		if err := cl.lie(); err != nil {
			r.Errorf("%s: %v", where, err)
		}
	}
}

// died reports whether a check failed because the daemon died meanwhile.
func died(err error) bool { return errors.Is(err, errLost) }
