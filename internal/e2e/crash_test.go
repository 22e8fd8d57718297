package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Shape of a round of the crash suite.
const (
	crashClients = 3
	longestLife  = 120             // events that clients hear of a daemon before it is killed
	armedLife    = 500             // likewise, before it is told to leave because its failpoint was not met
	patientLife  = 4 * time.Second // the same on a machine too busy for that many
	orphanLimit  = time.Second     // after the next start no process of the last daemon may live
	deepestHit   = 25              // a failpoint that every command meets fires at a hit up to this
)

// TestCrash kills the daemon again and again, at random moments and at every
// failpoint, while clients ask for things, and checks after each start that
// nothing that they were told has become untrue.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -crash.seed=%d -crash.rounds=%d)", seed, seed, *crashRounds)
	r := &crash{T: t, rng: rand.New(rand.NewPCG(seed, 0)), home: newHome(t), met: map[string]int{}}
	r.work = filepath.Join(filepath.Dir(r.home), "work")
	if err := os.Mkdir(r.work, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range crashClients {
		r.clients = append(r.clients, &client{
			name: fmt.Sprintf("client%d", i), rng: rand.New(rand.NewPCG(seed, uint64(i)+1)), work: r.work, acks: &r.acks, heard: &r.heard,
		})
	}
	points := slices.DeleteFunc(failpoints(t), needsOldFile)
	r.rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	r.round(-1, "store.create.before") // met on an empty home only
	for n := range *crashRounds {
		arm := ""
		if n%2 == 1 { // every other round at a random moment
			arm = points[n/2%len(points)]
		}
		r.round(n, arm)
		if t.Failed() {
			return
		}
	}
	r.last()
	if r.ends()[""] == 0 && *crashRounds >= roundsForSuccess {
		t.Error("not one turn succeeded under all that load, so it shows nothing")
	}
	t.Logf("%d rounds, %d acknowledged commands, %s, operations ended %v; failpoints met: %v; not met: %v", *crashRounds, r.acks.Load(), r.exchanged(), r.ends(), r.metNames(), r.missed)
}

// roundsForSuccess is how many rounds cannot all be cut short before a turn has
// succeeded, unless something is wrong. Fewer may be, by chance; the turn behind
// the last round must succeed in any case.
const roundsForSuccess = 20

// needsOldFile reports whether a failpoint is met only with a database of another
// size or version than the suite's rounds make: the store's own tests have those,
// and the first round the empty one.
func needsOldFile(point string) bool {
	return strings.HasPrefix(point, "store.compact.") || strings.HasPrefix(point, "store.migrate.") || point == "store.create.before"
}

// wayTo has what must go wrong first for a failpoint to be met.
var wayTo = map[string]string{"store.reopen.before": "store.commit.fail=error@5;"}

// crash is a run of the crash suite.
type crash struct {
	*testing.T
	rng     *rand.Rand
	home    string
	work    string
	clients []*client
	acks    atomic.Int64 // commands that were acknowledged
	heard   atomic.Int64 // events that clients got
	orphans []int        // processes of agents when the last daemon had died
	met     map[string]int
	missed  []string
}

func (r *crash) metNames() []string {
	var names []string
	for name := range r.met {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ends tells how the operations ended that clients saw end, by code; "" = well.
func (r *crash) ends() map[string]int {
	all := map[string]int{}
	for _, cl := range r.clients {
		cl.mu.Lock()
		for code, n := range cl.ends {
			all[code] += n
		}
		cl.mu.Unlock()
	}
	return all
}

// round runs one daemon from its start to its death.
func (r *crash) round(n int, point string) {
	var env []string
	if point != "" {
		env = append(env, fmt.Sprintf("PEDELEC_FAILPOINTS=%s%s=kill@%d", wayTo[point], point, 1+r.hits(point)))
	}
	d := launch(r.T, r.home, env...)
	defer func() {
		r.orphans = agents(r.home)
		d.cleanUp()
	}()
	defer d.kill()
	if err := d.await(); err != nil {
		if point == "" {
			r.Errorf("round %d: %v", n, err)
		}
		r.met[point]++ // it died on its way up, as it should
		return
	}
	if err := r.check(d); errors.Is(err, errLost) {
		r.met[point]++
		return
	} else if err != nil {
		r.Errorf("round %d (%s): %v", n, point, err)
		return
	}
	var load sync.WaitGroup
	for _, cl := range r.clients {
		load.Go(func() { cl.run(d.info.Endpoint) })
	}
	load.Go(func() { operate(d, r.home, r.work) })
	r.death(d, point)
	load.Wait()
	for _, cl := range r.clients {
		if err := cl.lie(); err != nil {
			r.Errorf("round %d (%s): %v", n, point, err)
		}
	}
}

// hits picks how many hits of a failpoint pass before it fires.
func (r *crash) hits(point string) int {
	for _, often := range []string{"store.commit.", "store.update.", "store.read.", "lifecycle.commit.", "lifecycle.reply.", "lifecycle.provider.", "proc.write."} {
		if strings.HasPrefix(point, often) {
			return r.rng.IntN(deepestHit)
		}
	}
	return 0 // met once a run, or not much more
}

// death waits until the daemon dies at its failpoint, or ends it at a random
// moment: moments are counted in events that clients heard, so that a slow machine
// shows the same as a quick one.
func (r *crash) death(d *daemon, point string) {
	life := int64(armedLife)
	if point == "" {
		life = r.rng.Int64N(longestLife)
	}
	until := r.heard.Load() + life
	err := waitFor(patientLife, "so many events", func() (bool, error) {
		select {
		case <-d.exited:
			return true, nil
		default:
			return r.heard.Load() >= until, nil
		}
	})
	died := false
	select {
	case <-d.exited:
		died = true
	default:
		if err != nil {
			r.Log(err) // a busy machine; what was heard is as good
		}
	}
	switch {
	case point == "" && died:
		r.Errorf("the daemon left by itself: %v", d.exitErr)
	case point == "":
		d.kill()
	case died:
		r.met[point]++
	default:
		r.leave(d, point)
	}
}

// leave tells the daemon to leave, since some failpoints lie on the way out.
func (r *crash) leave(d *daemon, point string) {
	switch code, err := d.stop(); {
	case err != nil:
		r.Errorf("%s: %v", point, err)
	case code != 0:
		r.met[point]++
	default:
		r.missed = append(r.missed, point)
	}
}

// check compares what clients know with what a fresh daemon says.
func (r *crash) check(d *daemon) error {
	began := time.Now()
	c, err := open(d.info.Endpoint)
	if err != nil {
		return errLost
	}
	defer c.Close()
	for _, cl := range r.clients {
		for _, w := range slices.Concat(cl.threads, cl.retired) {
			if err := w.verify(c, cl.rng, true); err != nil {
				return err
			}
		}
		cl.retired = nil
	}
	return r.noOrphans(orphanLimit - time.Since(began))
}

// noOrphans waits until no process of the last daemon's agents lives.
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
	return nil
}

// last starts the daemon once more and checks that all is settled, and that it
// leaves cleanly.
func (r *crash) last() {
	d := start(r.T, r.home)
	if err := r.check(d); err != nil {
		r.Errorf("after the last round: %v", err)
		return
	}
	c := d.dial()
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
	if err := oneTurn(c); err != nil {
		r.Errorf("a turn behind the last round: %v", err)
	}
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
	if err := c.call("create_thread", map[string]any{"provider": "opencode"}, &made); err != nil {
		return err
	}
	if err := c.call("subscribe_thread", map[string]any{"threadId": made.ThreadID}, nil); err != nil {
		return err
	}
	if err := c.call("send_text", map[string]any{"threadId": made.ThreadID, "message": "echo it still works"}, nil); err != nil {
		return err
	}
	events, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" })
	if err != nil {
		return err
	}
	if !events[len(events)-1].Success {
		return errors.New("it did not succeed")
	}
	return nil
}
