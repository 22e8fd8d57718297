package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pedelec/pedelec-core/internal/lifecycle"
)

// durationsEnv names the variable that shortens durations of the real binary,
// for tests. Its value is a list "name=duration" separated by semicolons:
//
//	PEDELEC_DURATIONS="stop=200ms;sweep-delay=1s"
const durationsEnv = "PEDELEC_DURATIONS"

// durations are the durations that a test has changed, by name.
type durations map[string]time.Duration

// durationNames are the durations that a test may change.
var durationNames = func() map[string]struct{} {
	names := map[string]struct{}{"probe": {}, "idle-stop": {}, "back-off": {}, "write-timeout": {}, "first-request": {},
		"keep-alive": {}, "ping": {}, "pong": {}, "tool-progress": {}, "ticket-life": {}, "transfer-idle": {}, "approval": {}, "runtime-check": {}}
	for name := range lifecycleDurations(new(lifecycle.Durations)) {
		names[name] = struct{}{}
	}
	return names
}()

// lifecycleDurations names the fields of the lifecycle's durations.
func lifecycleDurations(d *lifecycle.Durations) map[string]*time.Duration {
	return map[string]*time.Duration{
		"start":       &d.Start,
		"silence":     &d.Silence,
		"stop":        &d.Stop,
		"session":     &d.Session,
		"auto-end":    &d.AutoEnd,
		"barrier":     &d.Barrier,
		"retry":       &d.Retry,
		"linger":      &d.Linger,
		"close":       &d.Close,
		"farewell":    &d.Farewell,
		"sweep-delay": &d.SweepDelay,
		"sweep-every": &d.SweepEvery,
	}
}

// set changes a duration of a part's configuration if a test has named it.
func (d durations) set(name string, field *time.Duration) {
	if v, ok := d[name]; ok {
		*field = v
	}
}

// parseDurations reads a value of durationsEnv. Its error names the entry that
// cannot be read, or the names that exist.
func parseDurations(value string) (durations, error) {
	d := durations{}
	for entry := range strings.SplitSeq(value, ";") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		name, text, _ := strings.Cut(entry, "=")
		if _, known := durationNames[name]; !known {
			names := slices.Sorted(maps.Keys(durationNames))
			return nil, fmt.Errorf("%s: there is no duration %q; there are %s", durationsEnv, name, strings.Join(names, ", "))
		}
		length, err := time.ParseDuration(text)
		if err != nil || length <= 0 {
			return nil, fmt.Errorf("%s: %q is no duration; write it like 200ms or 5s", durationsEnv, entry)
		}
		d[name] = length
	}
	return d, nil
}
