// Package provider finds the agent programs on this machine, starts them when a
// thread needs one, watches over them, and decides what they may do without
// asking.
//
// It owns discovery (which program, which version, does it speak the protocol),
// the runtimes with their back-off and idle stop, be it one process for all threads
// of a provider or, in a bounded pool, one for each, the table of the threads that
// share a process ([Seats]), and the permission policy. What a program's protocol
// looks like is a [Driver]'s business; the drivers live in the packages below this
// one.
//
// It never sees the store, never changes a thread, never sends a turn twice, and
// starts nothing before a thread needs it.
//
// Concurrency: every exported method is safe for concurrent use. Each runtime has
// one supervising goroutine, each start one of its own, so that a caller who
// leaves does not end a start that others wait for. [Manager.Close] waits for
// all of them.
//
// Failure model: a program that cannot be found, started or greeted fails the
// Attach that wanted it, with a sentence that says what to do. A program that
// keeps failing is not started again for a while; callers are refused at once
// with the cause. A runtime that dies takes its turns with it and nothing else:
// the next Attach starts another.
package provider
