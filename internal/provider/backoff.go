package provider

import (
	"time"
)

// Back-off of a program that fails to start or dies young (a restart storm helps
// nobody, and a person who fixes the cause should not wait long).
const (
	stableAfter   = 60 * time.Second // a runtime that lived this long restarts at once
	failureWindow = 10 * time.Minute
	maxFailures   = 5
	fullDelay     = 60 * time.Second // after maxFailures within failureWindow
)

var retryDelays = [maxFailures]time.Duration{0, time.Second, 5 * time.Second, 15 * time.Second, fullDelay}

// backoff counts failures. It is a value without a clock; the zero value refuses
// nothing.
type backoff struct {
	failures []time.Time // within failureWindow, oldest first
}

// fail records a failure: a start that failed, or a death after a life shorter
// than stableAfter.
func (b *backoff) fail(now time.Time) {
	b.failures = append(b.failures, now)
	if len(b.failures) > maxFailures {
		b.failures = b.failures[1:]
	}
}

// reset forgets the failures.
func (b *backoff) reset() { b.failures = nil }

// recent counts the failures that still matter.
func (b *backoff) recent(now time.Time) int {
	n := 0
	for _, at := range b.failures {
		if now.Sub(at) < failureWindow {
			n++
		}
	}
	return n
}

// wait returns for how long starts are refused, but no longer than limit after the
// last failure; 0 = not at all.
func (b *backoff) wait(now time.Time, limit time.Duration) time.Duration {
	recent := b.recent(now)
	if recent == 0 {
		return 0
	}
	last := b.failures[len(b.failures)-1]
	return max(0, last.Add(min(retryDelays[recent-1], limit)).Sub(now))
}
