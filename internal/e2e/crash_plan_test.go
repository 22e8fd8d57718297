package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// moment is when a failpoint is met.
type moment int

const (
	underLoad   moment = iota
	duringStart        // or while it clears up behind it
	inAgents           // in the scripted agent, on its way to an answer
	elsewhere          // not in this suite; see notHere
)

// way is how a round comes to meet a failpoint.
type way struct {
	at        moment
	failing   string // failpoints that must fail first, as PEDELEC_FAILPOINTS has them
	durations string // likewise, as PEDELEC_DURATIONS has them
	hits      int    // it fires at one of its first so many hits; 0 = at the first
	bias      bias
	leave     bool // it lies on the way out

	act func(*crash, *life) // what an operator does; nil = nothing

	// Of failpoints that are met at the start:
	beforeSweep bool              // the daemon dies before it looks for the last one's agents
	unasked     bool              // nobody may ask for a thread meanwhile
	possible    func(*crash) bool // whether the last death left what it takes; nil = always
}

// deepestHit is the hit up to which a failpoint fires that every command meets.
const deepestHit = 25

// ways holds what it takes to meet failpoints, by the beginning of their names;
// the longest that fits counts. The rest is met under load, at the first hit.
var ways = map[string]way{
	"lifecycle.commit.":   {hits: deepestHit},
	"lifecycle.provider.": {hits: deepestHit},
	"lifecycle.reply.":    {hits: deepestHit},
	"proc.write.":         {hits: deepestHit},
	"store.commit.":       {hits: deepestHit},
	"store.read.":         {hits: deepestHit},
	"store.update.":       {hits: deepestHit},

	"assets.upload.":         {bias: toUpload},
	"proc.kill.":             {leave: true},
	"settings.write.":        {act: operateOnce},
	"store.backup.":          {act: operateOnce},
	"store.close.":           {leave: true},
	"store.reopen.":          {failing: "store.commit.fail=error@5;"},
	"store.sweep.":           {act: deleteMuch},
	"workspace.custom.made":  {bias: toCreate},
	"workspace.managed.made": {bias: toCreate},

	"daemon.open.":            {at: duringStart, beforeSweep: true},
	"ipc.runtimefile.":        {at: duringStart, beforeSweep: true},
	"lifecycle.load":          {at: duringStart},
	"lifecycle.load.unstaged": {at: duringStart, possible: func(r *crash) bool { return r.unsettled && r.lastPoint == "assets.upload.written" }},
	"lifecycle.settle.":       {at: duringStart, possible: func(r *crash) bool { return r.unsettled }},
	"lifecycle.sweep.":        {at: duringStart, unasked: true, durations: "sweep-delay=1ms", possible: func(r *crash) bool { return r.unsettled }},
	"proc.sweep.":             {at: duringStart, possible: func(r *crash) bool { return r.ledger }},
	"store.open.":             {at: duringStart, beforeSweep: true},
	"workspace.clear.":        {at: duringStart, possible: (*crash).leftWorkspaces},

	"scripted.":       {at: inAgents, hits: 3},
	"scripted.greet.": {at: inAgents},
	"scripted.say.":   {at: inAgents, hits: deepestHit},

	"store.compact.":      {at: elsewhere},
	"store.create.before": {at: elsewhere, beforeSweep: true},
	"store.migrate.":      {at: elsewhere},
}

// notHere says of each failpoint that no round is for why, by the beginning of its
// name.
var notHere = map[string]string{
	"store.compact.":      "needs a file of which more than 64 MiB is free; the store's own crash test has it",
	"store.create.before": "is met in an empty home only, so before the first round",
	"store.migrate.":      "needs a file of an older schema; the store's own crash test has it",
}

func wayTo(point string) way {
	best := ""
	for prefix := range ways {
		if strings.HasPrefix(point, prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	return ways[best]
}

// leftWorkspaces reports whether there are temporary workspaces.
func (r *crash) leftWorkspaces() bool {
	left, err := os.ReadDir(filepath.Join(r.home, "workspaces"))
	return err == nil && len(left) > 0
}

func operateOnce(r *crash, l *life) { operate(l.info, r.home, r.work) }

// deleteMuch makes a thread with more events than one transaction may remove, and
// deletes it.
func deleteMuch(_ *crash, l *life) {
	c, err := open(l.info.Endpoint)
	if err != nil {
		return
	}
	defer c.Close()
	const events = 5000 // the store's MaxKeysRemoved
	var made snapshot
	if c.call("create_thread", object{"provider": "opencode"}, &made) != nil ||
		c.call("subscribe_thread", object{"threadId": made.ThreadID}, nil) != nil ||
		c.call("send_text", object{"threadId": made.ThreadID, "message": "message ." + strings.Repeat("|.", events)}, nil) != nil {
		return
	}
	if _, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" }); err != nil {
		return
	}
	if c.call("end_thread", object{"threadId": made.ThreadID}, nil) == nil {
		_ = c.call("delete_thread", object{"threadId": made.ThreadID}, nil) // a death in it is what the round is about
	}
}

// crashPlan says which failpoint is next, and counts what became of each.
type crashPlan struct {
	queues map[moment][]string
	tried  map[string]int
	met    map[string]int
}

// newCrashPlan takes all failpoints of the program, in any order.
func newCrashPlan(t testing.TB, rng *rand.Rand) *crashPlan {
	p := &crashPlan{queues: map[moment][]string{}, tried: map[string]int{}, met: map[string]int{}}
	points := failpoints(t)
	rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	for _, point := range points {
		at := wayTo(point).at
		p.queues[at] = append(p.queues[at], point)
	}
	return p
}

// next returns the failpoint of a moment that waits longest of those that can be met
// now; "" = there is none.
func (p *crashPlan) next(r *crash, at moment) string {
	queue := p.queues[at]
	for i, point := range queue {
		if can := wayTo(point).possible; can != nil && !can(r) {
			continue
		}
		p.queues[at] = append(slices.Delete(queue, i, i+1), point)
		return point
	}
	return ""
}

// unmet reports whether a failpoint of a moment that was never met can be met now.
func (p *crashPlan) unmet(r *crash, at moment) bool {
	return slices.ContainsFunc(p.queues[at], func(point string) bool {
		can := wayTo(point).possible
		return p.met[point] == 0 && (can == nil || can(r))
	})
}

// count takes what became of an armed failpoint. One that was not met comes next
// again, for a few times.
func (p *crashPlan) count(point string, met bool) {
	if point == "" {
		return
	}
	p.tried[point]++
	if met {
		p.met[point]++
		return
	}
	if p.tried[point] > triesEnough {
		return
	}
	queue := p.queues[wayTo(point).at]
	if i := slices.Index(queue, point); i > 0 {
		p.queues[wayTo(point).at] = slices.Insert(slices.Delete(queue, i, i+1), 0, point)
	}
}

// triesEnough is how often a failpoint must have been tried in vain to be sure that
// no round leads to it.
const triesEnough = 3

// judge fails the test for failpoints to which no round leads.
func (p *crashPlan) judge(t testing.TB) {
	for point, n := range p.tried {
		if n >= triesEnough && p.met[point] == 0 {
			t.Errorf("the failpoint %s was tried %d times and never met: give it a way in ways, or a reason in notHere", point, n)
		}
	}
}

// report tells what became of the failpoints of some moments, a line each.
func (p *crashPlan) report(moments ...moment) string {
	var untried, missed []string
	for _, at := range moments {
		for _, point := range p.queues[at] {
			switch {
			case at == elsewhere:
			case p.tried[point] == 0:
				untried = append(untried, point)
			case p.met[point] == 0:
				missed = append(missed, point)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "failpoints met:     %d\n", len(p.met))
	for _, point := range slices.Sorted(maps.Keys(p.met)) {
		fmt.Fprintf(&b, "    %-28s %4d of %d\n", point, p.met[point], p.tried[point])
	}
	fmt.Fprintf(&b, "failpoints missed:  %d %s\n", len(missed), strings.Join(missed, " "))
	fmt.Fprintf(&b, "failpoints untried: %d %s\n", len(untried), strings.Join(untried, " "))
	if slices.Contains(moments, elsewhere) {
		fmt.Fprintln(&b, "failpoints left out:")
		for _, prefix := range slices.Sorted(maps.Keys(notHere)) {
			fmt.Fprintf(&b, "    %-28s %s\n", prefix, notHere[prefix])
		}
	}
	return b.String()
}

// TestEveryFailpointIsKnownToTheCrashSuite makes sure that what the suite leaves out
// has a reason.
func TestEveryFailpointIsKnownToTheCrashSuite(t *testing.T) {
	all := failpoints(t)
	for prefix, w := range ways {
		if _, excused := notHere[prefix]; excused != (w.at == elsewhere) {
			t.Errorf("%s: left out %t, with a reason %t", prefix, w.at == elsewhere, excused)
		}
		if !slices.ContainsFunc(all, func(point string) bool { return strings.HasPrefix(point, prefix) }) {
			t.Errorf("%s is the beginning of no failpoint", prefix)
		}
	}
}
