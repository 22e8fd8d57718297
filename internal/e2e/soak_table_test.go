package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// measure is a column of the soak's table: how a sample shows it, and by how much
// it may grow.
type measure struct {
	name  string
	of    func(sample) float64
	unit  float64              // that one step of the shown figure stands for
	share float64              // allowed growth, relative
	slack float64              // allowed growth on top, in units
	judge func(sample) float64 // what may not grow, if that is not what is shown
}

const (
	mebi    = 1 << 20
	noLimit = -1 // share of a measure that is shown only
)

// measures are the columns. What may grow is noise: the height of a peak depends on
// what the clients happen to do at once, and a machine that is busy otherwise
// stretches it. A leak is told from noise by time: it grows by the same amount in
// each minute, so that a long run lifts it over any fixed tolerance. The heap is
// measured where it is quiet, behind a garbage collection; resident memory follows it
// with garbage on top, which Go's collector lets grow to the size of the heap.
var measures = []measure{
	{name: "RSS MiB", of: func(s sample) float64 { return float64(s.anonymous) }, unit: mebi, share: 0.15, slack: 4},
	{name: "heap", of: func(s sample) float64 { return float64(s.heapInUse) }, unit: mebi, share: 0.25, slack: 4},
	{name: "live", of: func(s sample) float64 { return float64(s.heapLive) }, unit: mebi, share: 0.15, slack: 2},
	{name: "goroutines", of: func(s sample) float64 { return float64(s.goroutines) }, unit: 1, share: 0.15, slack: 10,
		judge: func(s sample) float64 { return float64(s.goroutines - s.loaded) }}, // a loaded thread has one
	{name: "threads", of: func(s sample) float64 { return float64(s.threads) }, unit: 1, share: 0.15, slack: 3}, // Go ends none that once was needed
	{name: "fds", of: func(s sample) float64 { return float64(s.fds) }, unit: 1, share: 0.15, slack: 5},
	{name: "children", of: func(s sample) float64 { return float64(s.children) }, unit: 1, slack: 2},
	{name: "zombies", of: func(s sample) float64 { return float64(s.zombies) }, unit: 1, slack: 0},
	{name: "db MiB", of: func(s sample) float64 { return float64(s.storeBytes) }, unit: mebi, share: 0.15, slack: 2},
	{name: "loaded", of: func(s sample) float64 { return float64(s.loaded) }, unit: 1, share: noLimit}, // follows the speed of the machine; none is left at rest
	{name: "conns", of: func(s sample) float64 { return float64(s.conns) }, unit: 1, share: 0.15, slack: 4},
	{name: "tasks", of: func(s sample) float64 { return float64(s.tasks) }, unit: 1, share: noLimit},
}

// tableHead and tableRow print samples in columns.
func tableHead() string {
	var b strings.Builder
	b.WriteString("    time")
	for _, m := range measures {
		fmt.Fprintf(&b, "  %*s", width(m), m.name)
	}
	return b.String()
}

func tableRow(s sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8s", s.at.Round(time.Second))
	for _, m := range measures {
		precision := 0
		if m.unit == mebi {
			precision = 1
		}
		fmt.Fprintf(&b, "  %*.*f", width(m), precision, m.of(s)/m.unit)
	}
	return b.String()
}

func width(m measure) int { return max(6, len(m.name)) }

// fewestSamples are enough for the quarters of a run to have a median each.
const fewestSamples = 16

// notFlat returns the measures that grew: those whose median in the last quarter of
// a run is over that of the second quarter by more than their tolerance. Medians
// forgive single peaks, and the first quarter is left out since caches fill and the
// database finds its size in it.
func notFlat(all []sample) (grown []string) {
	if len(all) < fewestSamples {
		return []string{fmt.Sprintf("%d samples are too few to tell", len(all))}
	}
	quarter := len(all) / 4
	for _, m := range measures {
		of := m.of
		if m.judge != nil {
			of = m.judge
		}
		early, late := medianOf(all[quarter:2*quarter], of), medianOf(all[len(all)-quarter:], of)
		if m.share != noLimit && late > early*(1+m.share)+m.slack*m.unit {
			grown = append(grown, fmt.Sprintf("%s grew from %.1f in the second quarter to %.1f in the last", m.name, early/m.unit, late/m.unit))
		}
	}
	return grown
}

func medianOf(all []sample, of func(sample) float64) float64 {
	values := make([]float64, 0, len(all))
	for _, s := range all {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func TestGrowthIsToldFromNoise(t *testing.T) {
	const n = 80
	steady := func(i int) sample {
		return sample{heapLive: 8 * mebi, anonymous: int64(40+i%7) * mebi, goroutines: 100 + i%13, fds: 60 + i%5, storeBytes: 12 * mebi, tasks: int64(i) * 1000}
	}
	for name, tt := range map[string]struct {
		change func(i int, s *sample)
		want   string // measure that grew; "" = none
	}{
		"steady":                     {change: func(int, *sample) {}},
		"warming up":                 {change: func(i int, s *sample) { s.heapLive += int64(min(i, n/4)) * mebi }},
		"one peak":                   {change: func(i int, s *sample) { s.goroutines += map[bool]int{true: 500}[i == n-3] }},
		"a machine that got faster":  {change: func(i int, s *sample) { s.loaded += i; s.goroutines += i }},
		"shrinking":                  {change: func(i int, s *sample) { s.anonymous -= int64(i) * mebi / 4 }},
		"a leak of memory":           {change: func(i int, s *sample) { s.heapLive += int64(i) * mebi / 8 }, want: "live"},
		"of goroutines":              {change: func(i int, s *sample) { s.goroutines += i }, want: "goroutines"},
		"of file descriptors":        {change: func(i int, s *sample) { s.fds += i / 2 }, want: "fds"},
		"of processes, not reaped":   {change: func(i int, s *sample) { s.zombies = i / 30 }, want: "zombies"},
		"a database that only grows": {change: func(i int, s *sample) { s.storeBytes += int64(i) * mebi / 8 }, want: "db MiB"},
	} {
		var all []sample
		for i := range n {
			s := steady(i)
			tt.change(i, &s)
			all = append(all, s)
		}
		grown := notFlat(all)
		if tt.want == "" && len(grown) > 0 || tt.want != "" && (len(grown) != 1 || !strings.HasPrefix(grown[0], tt.want+" ")) {
			t.Errorf("%s: %q, want %q alone", name, grown, tt.want)
		}
	}
}
