package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// figure is one row of the table of measured figures.
type figure struct {
	id       string
	what     string
	value    string
	baseline string // what it is compared with, measured in the same run; "" = nothing
	ratio    float64
	target   string
	reached  bool
}

// report collects figures and writes them as a table.
type report struct {
	t    *testing.T
	rows []figure
}

func (r *report) add(f figure) {
	r.rows = append(r.rows, f)
	r.t.Logf("%-4s %s: %s (baseline %s, ratio %.2f; target %s; %s)", f.id, f.what, f.value, dash(f.baseline), f.ratio, f.target, mark(f.reached))
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func mark(reached bool) string {
	if reached {
		return "reached"
	}
	return "missed"
}

// write writes the table as Markdown.
func (r *report) write(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Measured figures\n\nWritten by `make bench` on %s, commit %s.\n\nMachine: %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), commit(), machine())
	b.WriteString("Machines differ and are rarely quiet, so what counts is the ratio to a baseline that was measured in the same\nrun. " +
		"The baselines do the least that the task needs, without the daemon; `internal/e2e/bench_*_test.go` has them.\n\n")
	b.WriteString("| # | figure | measured | baseline | ratio | target | |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range r.rows {
		ratio := "–"
		if f.ratio != 0 {
			ratio = fmt.Sprintf("%.2f", f.ratio)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", f.id, f.what, f.value, dash(f.baseline), ratio, f.target, mark(f.reached))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine describes what the figures were measured on.
func machine() string {
	cpu := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				cpu = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s", runtime.NumCPU(), cpu, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// samples are measured durations.
type samples []time.Duration

func (s samples) at(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func (s samples) median() time.Duration { return s.at(0.5) }

func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }
func us(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond)) }

// TestBench measures the figures that the project promises and writes their table.
// It never fails because a figure is missed: a machine may be slow or busy.
func TestBench(t *testing.T) {
	if *benchWrite == "" {
		t.Skip("figures are measured only with -bench.write FILE (make bench)")
	}
	path := *benchWrite
	if !filepath.IsAbs(path) {
		path = filepath.Join(moduleRoot(t), path)
	}
	r := &report{t: t}
	for _, b := range []struct {
		name string
		run  func(*testing.T, *report)
	}{
		{"start", benchStart}, {"memory", benchMemory}, {"ping", benchPing}, {"commands", benchCommands},
		{"latency", benchLatency}, {"deltas", benchDeltas}, {"fan-out", benchFanOut}, {"replay", benchReplay},
		{"tools", benchTools}, {"stalled", benchStalled}, {"upload", benchUpload}, {"binary", benchBinary},
	} {
		t.Run(b.name, func(t *testing.T) { b.run(t, r) })
	}
	if t.Failed() {
		t.Log("not written, since a measurement failed")
		return
	}
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	t.Logf("written to %s", path)
}
