package lifecycle

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// Durations of the lifecycle. Tests shorten them.
type Durations struct {
	Start      time.Duration // opening the provider session and handing over the text; 0 = no limit
	Silence    time.Duration // a turn without any frame; 0 = no limit
	Stop       time.Duration // for the provider to confirm a cancel or an end
	Session    time.Duration // an open provider session without a turn
	AutoEnd    time.Duration // after the last subscription of an autoEnd thread is gone
	Barrier    time.Duration // for subscribers to get the events of an end before its answer
	Retry      time.Duration // between two tries of a commit that failed
	Linger     time.Duration // before a thread without use is unloaded
	Close      time.Duration // for one provider session to be closed
	Farewell   time.Duration // for subscribers to get the last events at shutdown
	SweepDelay time.Duration // from the start until threads that nobody asked for are settled
	SweepEvery time.Duration // between two rounds of retention
}

// DefaultDurations are those of the documentation.
var DefaultDurations = Durations{
	Start:      60 * time.Second,
	Silence:    30 * time.Minute,
	Stop:       5 * time.Second,
	Session:    10 * time.Minute,
	AutoEnd:    10 * time.Second,
	Barrier:    time.Second,
	Retry:      time.Second,
	Linger:     30 * time.Second,
	Close:      5 * time.Second,
	Farewell:   2 * time.Second,
	SweepDelay: 2 * time.Minute,
	SweepEvery: time.Hour,
}

// Retention says how long threads are kept. Zero means for ever.
type Retention struct {
	Ended      time.Duration // ended threads are deleted
	Idle       time.Duration // idle threads and threads in error are ended
	StoreBytes int64         // over this size, ended threads are deleted, oldest first
}

// DefaultRetention is 30 days for both, and 4 GiB.
var DefaultRetention = Retention{Ended: 30 * 24 * time.Hour, Idle: 30 * 24 * time.Hour, StoreBytes: 4 << 30}

// Limits of one loaded thread.
const (
	maxRequests   = 64        // requests in a mailbox; one more is OVERLOADED
	maxInboxBytes = 1 << 20   // of a provider's frames that wait for the actor, above which deltas are dropped
	maxFrameBytes = 16 << 20  // of those that must not be lost: as much as one frame of an agent may have
	mergeBytes    = 1 << 10   // text of a waiting delta up to which the next is appended to it
	maxHeldBytes  = 4 << 20   // inputs that wait for the disk
	maxRingBytes  = 256 << 10 // events kept in memory for subscribers
	frameOverhead = 64        // what a frame costs besides its text
	sweepParallel = 32        // threads that the sweeper loads at once
	maxIDBytes    = 128       // longest thread id that is looked up
	eventsPage    = 1000      // events of one journal read
	eventsBytes   = 256 << 10 // bytes of one journal read
)

// Config is what a [Service] is made of. Store, Runtimes, Workspaces, Profiles,
// Encode and Instance must be set.
type Config struct {
	Store      Store
	Runtimes   Runtimes
	Workspaces Workspaces
	Transfers  Transfers // nil = this daemon transfers no files
	Profiles   Profiles
	// Encode appends an event as the line that clients get, LF included.
	Encode   func(dst []byte, threadID string, ev *thread.Event) []byte
	Instance string // this daemon's id, new at each start

	ToolServer ToolServer // nil = agents without calls of their own use the CLI
	CLI        string     // absolute path of pedelec-cli; "" = the one on the agent's PATH

	Durations Durations // zero = DefaultDurations
	Retention Retention
	// Now is time.Now if it is nil. Like that, it tells the wall clock, for what is
	// stored, and carries a monotonic reading, by which durations are measured, so
	// that setting the system's clock neither ends nor prolongs anything.
	Now     func() time.Time
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil = none
}
