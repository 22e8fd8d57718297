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
	crashClients = 4
	shortestLife = 20 * time.Millisecond
	longestLife  = 500 * time.Millisecond
	armedLife    = 2 * time.Second // for a failpoint to be met; after that the daemon is told to leave
	orphanLimit  = time.Second     // after the next start no process of the last daemon may live
	deepestHit   = 25              // the failpoint fires at a hit up to this
	startHits    = 2               // hits of a failpoint that is met at the start
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
			name: fmt.Sprintf("client%d", i), rng: rand.New(rand.NewPCG(seed, uint64(i)+1)), work: r.work, acks: &r.acks,
		})
	}
	points := failpoints(t)
	r.rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
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
	t.Logf("%d rounds, %d acknowledged commands; failpoints met: %v; not met: %v", *crashRounds, r.acks.Load(), r.metNames(), r.missed)
}

// crash is a run of the crash suite.
type crash struct {
	*testing.T
	rng     *rand.Rand
	home    string
	work    string
	clients []*client
	acks    atomic.Int64
	orphans []int // processes of agents when the last daemon had died
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

// round runs one daemon from its start to its death.
func (r *crash) round(n int, point string) {
	var env []string
	if point != "" {
		env = append(env, fmt.Sprintf("PEDELEC_FAILPOINTS=%s=kill@%d", point, 1+r.hits(point)))
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
	r.death(d, point)
	load.Wait()
	for _, cl := range r.clients {
		if err := cl.lie(); err != nil {
			r.Errorf("round %d (%s): %v", n, point, err)
		}
	}
}

// hits picks the hit at which a failpoint fires.
func (r *crash) hits(point string) int {
	for _, early := range []string{".open.", ".create.before", "runtimefile", ".sweep.", ".load"} {
		if strings.Contains(point, early) {
			return r.rng.IntN(startHits)
		}
	}
	return r.rng.IntN(deepestHit)
}

// death waits until the daemon dies at its failpoint, or kills it.
func (r *crash) death(d *daemon, point string) {
	if point == "" {
		life := shortestLife + time.Duration(r.rng.Int64N(int64(longestLife-shortestLife)))
		select {
		case <-time.After(life):
		case <-d.exited:
			r.Errorf("the daemon left by itself: %v", d.exitErr)
		}
		d.kill()
		return
	}
	select {
	case <-d.exited:
		r.met[point]++
		return
	case <-time.After(armedLife):
	}
	// Some places lie on the way out.
	if code, err := d.stop(); err != nil {
		r.Errorf("%s: %v", point, err)
	} else if code != 0 {
		r.met[point]++
	} else {
		r.missed = append(r.missed, point)
	}
}

// check compares what clients know with what a fresh daemon says.
func (r *crash) check(d *daemon) error {
	began := time.Now()
	c := d.dial()
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
	if code, err := d.stop(); err != nil || code != 0 {
		r.Errorf("the last daemon left with %d: %v", code, err)
	}
	if err := waitFor(orphanLimit, "all agents to be gone", func() (bool, error) { return len(agents(r.home)) == 0, nil }); err != nil {
		r.Errorf("%v: %v", err, agents(r.home))
	}
}
