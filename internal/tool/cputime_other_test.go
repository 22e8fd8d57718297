//go:build !linux

package tool

import "time"

// cpuTime returns how long f takes.
func cpuTime(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
