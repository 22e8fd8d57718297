// Package lifecycle runs threads: it owns one goroutine, the actor, for each
// loaded thread, which feeds inputs to [thread.Step], has the outcome stored,
// and then tells it: events to subscribers, effects to the provider, replies to
// callers.
//
// It owns the loaded threads, their timers, the order of their events and the
// subscriptions. It decides when a thread is loaded, settled and unloaded.
//
// It never decides what a status or an event is (that is [thread.Step]), never
// reads or writes a file and never speaks to a provider or a client by itself:
// store, runtimes, workspaces and profiles are interfaces that it declares.
//
// Concurrency: only a thread's actor changes that thread, and there is never
// more than one actor of it: the registry places and takes actors under one
// lock. Besides its mailbox an actor waits for one thing only, its own commit.
// Effects run in order in one goroutine a thread and come back as inputs.
// Readers (snapshots, subscriptions) take what was published under the ring's
// lock and never enter the mailbox. All queues are bounded.
//
// Failure model: what cannot be stored is refused to its caller and has not
// happened. What has no caller, such as a provider's frame, is kept in order and
// tried again every second, up to 4 MiB; beyond that the turn is cancelled and
// fails with STORAGE_FULL. A panic while an input is handled is counted and
// logged, and leaves the thread as it was.
package lifecycle
