package thread

import "errors"

// ErrTrimmed is what a feed returns when retention removed durable events that
// it had not taken yet. Its connection must close, so that the client takes a
// new snapshot.
var ErrTrimmed = errors.New("events were trimmed before this subscriber took them")

// Feed is one subscription of a thread: a cursor into its events. It is used by
// one goroutine, except Close, which may be called by any.
type Feed interface {
	// Snapshot is the state at the cut: the feed carries what comes after its
	// LatestSeq, and the replay before it.
	Snapshot() Snapshot
	// Replay is nil when the subscriber gave no cursor.
	Replay() *Replay
	// Take returns the encoded lines that are ready, without waiting: whole
	// groups only, in order, no more than about max bytes, and the sequence
	// number of the last. No lines means that there is nothing new; the wake
	// channel given at subscription is signalled when there is. It may read the
	// journal. ErrTrimmed: durable events were trimmed before they were taken.
	Take(max int) (lines [][]byte, last uint64, err error)
	// Written says that all lines up to this number were handed to the
	// operating system.
	Written(seq uint64)
	// Close ends the subscription.
	Close()
}
