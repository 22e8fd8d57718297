package fault

import "time"

// standstill is how late a time limit is noticed by a process that stood still: one
// that was stopped, swapped out, or got no processor. A busy machine is quicker.
const standstill = time.Second

// Overslept reports whether a limit that was due at a time is noticed so late that
// the process must have stood still. Then the limit says nothing about others: what
// they did in time may wait to be looked at.
func Overslept(due time.Time) bool { return time.Since(due) >= standstill }
