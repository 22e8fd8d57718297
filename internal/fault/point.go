package fault

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// PointsEnv names the environment variable that arms failpoints in the real
// binary. Its value is a list "name=action[@n]" separated by semicolons: the
// action happens at the n-th hit of the point (default 1, "@*" means each hit).
//
//	PEDELEC_FAILPOINTS="store.commit.after=kill@3;provider.write.before=error"
//
// Actions: kill (SIGKILL to ourselves, as a crash), error (the point returns
// an error), full (an error that reads as a full disk), panic, sleep:<duration>,
// and kill%<p> (kill with a chance of p percent at each hit).
const PointsEnv = "PEDELEC_FAILPOINTS"

// ErrInjected is what a point armed with "error" returns.
var ErrInjected = fmt.Errorf("failpoint: injected error")

// ErrInjectedFull is what a point armed with "full" returns. It is an
// [StorageFull] error.
var ErrInjectedFull = New(StorageFull, "failpoint: injected full disk")

type point struct {
	action  string
	arg     string
	at      int64 // hit number that triggers; 0 = every hit
	percent float64
	hits    atomic.Int64
}

// points is nil when nothing is armed, which makes Point one load and a test.
var points atomic.Pointer[map[string]*point]

// Arm parses a failpoint list and makes it the one in force; "" disarms all.
// It returns an error that names the entry which it cannot read.
func Arm(spec string) error {
	if spec == "" {
		points.Store(nil)
		return nil
	}
	m := map[string]*point{}
	for entry := range strings.SplitSeq(spec, ";") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		name, rest, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return fmt.Errorf("failpoint %q: want name=action", entry)
		}
		p, err := parsePoint(rest)
		if err != nil {
			return fmt.Errorf("failpoint %q: %w", entry, err)
		}
		m[name] = p
	}
	points.Store(&m)
	return nil
}

func parsePoint(s string) (*point, error) {
	p := &point{at: 1}
	s, nth, counted := strings.Cut(s, "@")
	if counted && nth == "*" {
		p.at = 0
	} else if counted {
		n, err := strconv.ParseInt(nth, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("hit number %q is not a positive number or *", nth)
		}
		p.at = n
	}
	if kill, pct, ok := strings.Cut(s, "%"); ok {
		f, err := strconv.ParseFloat(pct, 64)
		if err != nil || kill != "kill" || !(f > 0 && f <= 100) {
			return nil, fmt.Errorf("%q is not kill%%<percent>, with a percentage over 0 and up to 100", s)
		}
		p.action, p.percent, p.at = "kill", f, 0
		return p, nil
	}
	p.action, p.arg, _ = strings.Cut(s, ":")
	switch p.action {
	case "kill", "error", "full", "panic":
		return p, nil
	case "sleep":
		_, err := time.ParseDuration(p.arg)
		return p, err
	}
	return nil, fmt.Errorf("action %q is unknown", p.action)
}

// Armed returns the names of the armed points, for the start-up warning.
func Armed() []string {
	m := points.Load()
	if m == nil {
		return nil
	}
	var names []string
	for name := range *m {
		names = append(names, name)
	}
	return names
}

// Point marks a place where a test may make the daemon fail. It returns nil
// unless the place is armed and its turn has come.
func Point(name string) error {
	m := points.Load()
	if m == nil {
		return nil
	}
	p := (*m)[name]
	if p == nil {
		return nil
	}
	hit := p.hits.Add(1)
	if p.at != 0 && hit != p.at {
		return nil
	}
	if p.percent > 0 && rand.Float64()*100 >= p.percent {
		return nil
	}
	switch p.action {
	case "kill":
		killSelf()
	case "panic":
		panic("failpoint " + name)
	case "sleep":
		d, _ := time.ParseDuration(p.arg)
		time.Sleep(d)
	case "full":
		return ErrInjectedFull
	case "error":
		return ErrInjected
	}
	return nil
}

// killSelf ends the process as a crash would: no deferred call runs.
func killSelf() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal is on its way; nothing after this point may run
}
