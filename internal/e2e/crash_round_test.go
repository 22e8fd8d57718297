package e2e

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Shape of a round of the crash suite.
const (
	longestLife  = 120                   // events that clients hear of a daemon before it is killed
	armedLife    = 500                   // likewise, before its failpoint counts as not met
	patientLife  = 4 * time.Second       // the same on a machine too busy for that many
	orphanLimit  = time.Second           // after the next start no process of the last daemon may live
	operateEvery = 5                     // rounds
	firstStart   = 30 * time.Millisecond // guess of how long a start takes
	behindStart  = time.Second           // what goes on behind a start is over by then
)

// crashDurations lets agents start again at once, however often they die.
const crashDurations = "PEDELEC_DURATIONS=back-off=5ms;"

// round runs a daemon from the death of the last one to its own. Before it comes up,
// others may die while they try.
func (r *crash) round(n int) {
	for range r.startDeaths(n) {
		point := ""
		if r.rng.IntN(2) == 0 || r.points.unmet(r, duringStart) {
			point = r.points.next(r, duringStart)
		}
		if r.dieStarting(point); r.Failed() {
			return
		}
	}
	point := ""
	if n%3 > 0 { // the others at a random moment
		point = r.points.next(r, underLoad)
	}
	r.live(n, point)
}

// startDeaths picks how many daemons die on their way up before one gets through.
func (r *crash) startDeaths(n int) int {
	switch {
	case n%10 == 9:
		return 4
	case r.points.unmet(r, duringStart):
		return 1 + r.rng.IntN(2)
	}
	return r.rng.IntN(3)
}

// spawnArmed starts a daemon that dies at a failpoint, if it meets it.
func (r *crash) spawnArmed(point string) *daemon {
	if point == "" {
		return spawn(r.T, r.home, serveCommand(r.T, r.home), crashDurations)
	}
	w := wayTo(point)
	armed := fmt.Sprintf("PEDELEC_FAILPOINTS=%s%s=kill@%d", w.failing, point, r.hit(point))
	return spawn(r.T, r.home, serveCommand(r.T, r.home), armed, crashDurations+w.durations)
}

// hit picks the hit of a failpoint at which it fires.
func (r *crash) hit(point string) int { return 1 + r.rng.IntN(max(1, wayTo(point).hits)) }

// buried ends a daemon for good and notes what it leaves.
func (r *crash) buried(d *daemon) {
	d.kill()
	r.kills++
	for _, pid := range agents(r.home) {
		if !slices.Contains(r.orphans, pid) {
			r.orphans = append(r.orphans, pid)
		}
	}
	d.forget()
}

// live runs one daemon under load until it dies at a failpoint or, where none is
// given, at a random moment.
func (r *crash) live(n int, point string) {
	where := fmt.Sprintf("round %d %s", n, point)
	d := r.spawnArmed(point)
	defer r.buried(d)
	began := time.Now()
	if err := d.await(); err != nil {
		if point == "" {
			r.Errorf("%s: %v", where, err)
		}
		r.points.count(point, true) // it died on its way up
		return
	}
	r.startTime = (3*r.startTime + time.Since(began)) / 4
	if err := r.check(d); died(err) && point != "" {
		r.points.count(point, true)
		return
	} else if err != nil {
		r.Errorf("%s: %v", where, err)
		return
	}
	w := wayTo(point)
	l := newLife(d.info)
	before := r.heard.Load()
	var load sync.WaitGroup
	for _, cl := range r.clients {
		cl.bias = w.bias
		load.Go(func() { cl.run(l) })
	}
	acted := make(chan struct{})
	if w.act != nil {
		load.Go(func() { defer close(acted); w.act(r, l) })
	} else if n%operateEvery == 0 {
		load.Go(func() { operate(l.info, r.home, r.work) })
	}
	met := r.death(d, point, w, acted)
	l.end()
	load.Wait()
	r.points.count(point, met)
	r.ledger, r.unsettled, r.lastPoint = !w.leave && r.heard.Load()-before > fewEvents, true, point
	r.lies(where)
}

// death waits until the daemon dies at its failpoint, or ends it at a random
// moment: moments are counted in events that clients heard, so that a slow machine
// shows the same as a quick one. It reports whether the failpoint was met.
func (r *crash) death(d *daemon, point string, w way, acted <-chan struct{}) (met bool) {
	life := int64(armedLife)
	switch {
	case point == "":
		life = r.rng.Int64N(longestLife)
	case w.leave:
		life = fewEvents
	case w.act != nil:
		life = fewEvents
		select {
		case <-acted:
		case <-d.exited:
		}
	}
	until := r.heard.Load() + life
	err := waitFor(patientLife, "so many events", func() (bool, error) {
		return d.left() || r.heard.Load() >= until, nil
	})
	if err != nil {
		r.Log(err) // a busy machine; what was heard is as good
	}
	switch {
	case d.left() && point == "":
		r.Errorf("the daemon left by itself: %v", d.exitErr)
	case d.left():
		return true
	case w.leave:
		code, err := d.stop()
		if err != nil {
			r.Errorf("%s: %v", point, err)
		}
		return code != 0
	default:
		d.kill()
	}
	return false
}

// dieStarting starts a daemon and kills it before it serves, or while it clears up
// what the last one left: at a failpoint or, where none is given, at a random
// moment.
func (r *crash) dieStarting(point string) {
	d := r.spawnArmed(point)
	defer r.buried(d)
	if point == "" {
		moment := time.NewTimer(time.Duration(r.rng.Float64() * 1.5 * float64(r.startTime)))
		defer moment.Stop()
		select {
		case <-moment.C:
		case <-d.exited:
			r.Errorf("the daemon left at its start: %v", d.exitErr)
		}
		r.ledger = false // maybe
		return
	}
	w := wayTo(point)
	met := d.await() != nil
	if !met && !w.unasked {
		err := r.check(d)
		if met = died(err); !met && err != nil {
			r.Errorf("at the start, %s: %v", point, err)
			return
		}
	}
	if !met {
		met = waitFor(behindStart, "the failpoint", func() (bool, error) { return d.left(), nil }) == nil
	}
	r.points.count(point, met)
	if !w.beforeSweep {
		r.ledger = false
	}
}
