package fault

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// armed arms a list for one test.
func armed(t *testing.T, spec string) {
	t.Helper()
	if err := Arm(spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Arm("") })
}

func TestArmRefusesWhatItCannotRead(t *testing.T) {
	tests := []struct{ spec, want string }{
		{"store.commit", "want name=action"},
		{"=error", "want name=action"},
		{"a=", `action "" is unknown`},
		{"a=explode", `action "explode" is unknown`},
		{"a=error@0", "not a positive number"},
		{"a=error@-1", "not a positive number"},
		{"a=error@x", "not a positive number"},
		{"a=error@", "not a positive number"},
		{"a=sleep", "invalid duration"},
		{"a=sleep:soon", "invalid duration"},
		{"a=kill%x", "not kill%<percent>"},
		{"a=error%5", "not kill%<percent>"},
		{"a=kill%0", "not kill%<percent>"},
		{"a=kill%-1", "not kill%<percent>"},
		{"a=kill%101", "not kill%<percent>"},
		{"a=kill%NaN", "not kill%<percent>"},
		{"a=error;b=oops", `failpoint "b=oops"`},
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			armed(t, "kept=error")
			err := Arm(tt.spec)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if got := Armed(); !slices.Equal(got, []string{"kept"}) {
				t.Errorf("a list that cannot be read leaves %v armed", got)
			}
		})
	}
}

func TestArmed(t *testing.T) {
	if got := Armed(); got != nil {
		t.Errorf("%v armed from the start", got)
	}
	armed(t, " b=error ; ; a=sleep:1ms@2 ;")
	got := Armed()
	slices.Sort(got)
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("armed %v", got)
	}
}

func TestPoints(t *testing.T) {
	tests := []struct {
		name, spec string
		want       []error // of three hits
	}{
		{"nothing is armed", "", []error{nil, nil, nil}},
		{"another point is", "other=error", []error{nil, nil, nil}},
		{"the first hit by default", "p=error", []error{ErrInjected, nil, nil}},
		{"the second", "p=error@2", []error{nil, ErrInjected, nil}},
		{"each", "p=error@*", []error{ErrInjected, ErrInjected, ErrInjected}},
		{"a full disk", "p=full", []error{ErrInjectedFull, nil, nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			armed(t, tt.spec)
			for i, want := range tt.want {
				if err := Point("p"); !errors.Is(err, want) || (want == nil) != (err == nil) {
					t.Errorf("hit %d: %v, want %v", i+1, err, want)
				}
			}
		})
	}
	if !Is(ErrInjectedFull, StorageFull) {
		t.Error("an injected full disk is no STORAGE_FULL")
	}
}

func TestOneHitOfManyTriggers(t *testing.T) {
	armed(t, "p=error@50")
	var wg sync.WaitGroup
	var hits atomic.Int32
	for range 100 {
		wg.Go(func() {
			if Point("p") != nil {
				hits.Add(1)
			}
		})
	}
	wg.Wait()
	if hits.Load() != 1 {
		t.Errorf("%d of 100 hits triggered", hits.Load())
	}
}

func TestPointSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		armed(t, "p=sleep:1m")
		begin := time.Now()
		if err := Point("p"); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestPointPanics(t *testing.T) {
	armed(t, "p=panic")
	defer func() {
		if r := recover(); r != "failpoint p" {
			t.Errorf("recovered %v", r)
		}
	}()
	_ = Point("p")
	t.Error("no panic")
}

// killEnv makes the test binary hit an armed point and tell whether it lived.
const killEnv = "FAULT_TEST_KILL"

func TestPointKills(t *testing.T) {
	if spec := os.Getenv(killEnv); spec != "" {
		armed(t, spec)
		_, _ = os.Stdout.WriteString("before\n")
		_ = Point("p")
		_, _ = os.Stdout.WriteString("after\n")
		return
	}
	for spec, want := range map[string]string{"p=kill": "killed", "p=kill@2": "lives", "p=kill%100": "killed"} {
		t.Run(spec, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPointKills$")
			child.Env = append(os.Environ(), killEnv+"="+spec)
			out, err := child.Output()
			got := "lives"
			if err != nil {
				got = "killed"
			}
			if got != want || !strings.Contains(string(out), "before\n") || strings.Contains(string(out), "after\n") != (want == "lives") {
				t.Errorf("the child %s (%v):\n%s", got, err, out)
			}
		})
	}
}

func BenchmarkPointUnarmed(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = Point("p")
	}
}

// FuzzArm reads failpoint lists: one that cannot be read changes nothing, and one
// that can names every point that it arms.
func FuzzArm(f *testing.F) {
	for _, s := range []string{"store.commit.before=kill@3", "a=error;b=full@*", "a=sleep:5ms", "a=kill%12.5", "a=panic:why", ";;", "=kill", "a=kill%NaN", "a=kill@0"} {
		f.Add(s)
	}
	f.Cleanup(func() { _ = Arm("") })
	f.Fuzz(func(t *testing.T, spec string) {
		if err := Arm("before=error"); err != nil {
			t.Fatal(err)
		}
		if err := Arm(spec); err != nil {
			if armed := Armed(); len(armed) != 1 || armed[0] != "before" {
				t.Fatalf("%q is refused and leaves %q armed", spec, armed)
			}
			return
		}
		for _, name := range Armed() {
			if name == "" || !strings.Contains(spec, name+"=") {
				t.Fatalf("%q arms %q", spec, name)
			}
		}
	})
}
