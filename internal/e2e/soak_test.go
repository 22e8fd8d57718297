package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soakSettings keep little, so that retention has work.
var soakSettings = object{"retention": object{"journalEvents": 100, "storeBytes": 4 << 20}}

// soakDurations let the daemon put away what nobody uses within seconds.
const soakDurations = "PEDELEC_DURATIONS=linger=500ms;session=1s;idle-stop=1s;back-off=1s;auto-end=200ms;sweep-delay=1s;sweep-every=2s;write-timeout=3s;ticket-life=5s"

const (
	shortSoak     = 6 * time.Second // in make test, where only what is left at rest is looked at
	warmUpShare   = 10              // of the time of the load, what runs before, so that all has been done once
	longestWarmUp = 30 * time.Second
	soakRows      = 20               // of the table, at least
	longestRow    = 30 * time.Second // between two rows
	rowSamples    = 15               // between two rows
	cyclesPromise = 10_000           // create/send/end, without growth
)

// restGrowth is by how much the heap may be larger at rest behind the load than
// before it, in bytes: buffers and maps keep the size that they once needed. It does
// not depend on how long the load was.
const restGrowth = 2 << 20

// questionNoise is how many goroutines more or less a question for metrics may find
// running: it is answered by several of them itself.
const questionNoise = 3

// TestSoak runs clients of all kinds against one daemon. Afterwards the daemon must
// hold what it held before. With -soak, which says how long, it also prints what it
// held meanwhile, as a table, and fails when that grew.
func TestSoak(t *testing.T) {
	t.Parallel()
	length := *soakTime
	if length == 0 {
		length = shortSoak
	}
	home := newHome(t)
	writeSettings(t, home, soakSettings)
	d := start(t, home, soakDurations)
	if err := os.Mkdir(filepath.Join(filepath.Dir(home), "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	warmUp(t, d, min(length/warmUpShare, longestWarmUp))
	before, err := atRest(d)
	if err != nil {
		t.Fatal(err)
	}

	load := startSoak(d)
	all := watchSoak(t, load, length)
	if err := load.finish(); err != nil {
		t.Fatal(err)
	}
	after, err := atRest(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d create/send/end cycles; %s", load.cycles.Load(), load.counts())
	sameAtRest(t, d, before, after)
	if *soakTime == 0 {
		return
	}
	for _, grown := range notFlat(all) {
		t.Error(grown)
	}
	if n := load.cycles.Load(); n < cyclesPromise {
		t.Logf("fewer than %d cycles: use a longer -soak to show that many", cyclesPromise)
	}
}

// warmUp does everything once, so that what is made at the first use and kept is
// there.
func warmUp(t *testing.T, d *daemon, length time.Duration) {
	t.Helper()
	load := startSoak(d)
	timer := time.NewTimer(length)
	defer timer.Stop()
	<-timer.C
	if err := load.finish(); err != nil {
		t.Fatal(err)
	}
}

// watchSoak takes samples while the load runs, and prints some of them in a long
// run.
func watchSoak(t *testing.T, load *soakLoad, length time.Duration) (all []sample) {
	row := min(longestRow, length/soakRows)
	tick := time.NewTicker(row / rowSamples)
	defer tick.Stop()
	began := time.Now()
	promised := false
	show(tableHead())
	for n := 1; time.Since(began) < length && load.failure() == nil; n++ {
		<-tick.C
		s, err := take(load.d)
		if err != nil {
			t.Error(err)
			return all
		}
		s.at, s.tasks = time.Since(began), load.done.Load()
		all = append(all, s)
		if n%rowSamples == 0 {
			show(tableRow(s))
		}
		if !promised && load.cycles.Load() >= cyclesPromise {
			promised = true
			show(fmt.Sprintf("%8s  %d create/send/end cycles are done", s.at.Round(time.Second), cyclesPromise))
		}
	}
	return all
}

// show prints a line of a long run at once, for whoever waits.
func show(line string) {
	if *soakTime > 0 {
		fmt.Println(line)
	}
}

// sameAtRest compares what the daemon held before the load with what it holds
// behind it.
func sameAtRest(t *testing.T, d *daemon, before, after sample) {
	t.Helper()
	t.Logf("at rest before: %s", atRestLine(before))
	t.Logf("at rest behind: %s", atRestLine(after))
	if after.fds > before.fds {
		t.Errorf("%d file descriptors are open, %d were", after.fds, before.fds)
	}
	if after.zombies > 0 {
		t.Errorf("%d processes were not reaped", after.zombies)
	}
	if after.heapLive > before.heapLive+restGrowth {
		t.Errorf("the heap holds %d bytes, %d before", after.heapLive, before.heapLive)
	}
	if after.goroutines > before.goroutines+questionNoise {
		t.Errorf("%d goroutines run, %d did:\n%s", after.goroutines, before.goroutines, stacks(d))
	}
}

func atRestLine(s sample) string {
	return fmt.Sprintf("%d goroutines, %d fds, %d threads, %.2f MiB live heap, %.1f MiB resident, database %.1f MiB",
		s.goroutines, s.fds, s.threads, float64(s.heapLive)/mebi, float64(s.anonymous)/mebi, float64(s.storeBytes)/mebi)
}

// stacks makes the daemon print its goroutines, which ends it.
func stacks(d *daemon) string {
	if err := d.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err.Error()
	}
	<-d.exited
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	text := string(b)
	return text[max(0, strings.LastIndex(text, "SIGQUIT")):]
}
