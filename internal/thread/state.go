package thread

import (
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// CallerID names somebody who waits for a [Reply]. 0 = nobody.
type CallerID uint64

// State is a thread in memory: its record, and what is known only while it is
// loaded.
type State struct {
	Record
	Operations []Admitted // oldest first; replaced, never changed in place

	self     string // this daemon's instance id, written into each commit
	turn     turn   // the active operation's run; zero when there is none
	turns    uint64 // turns begun since loading; the last one's id
	resuming []CallerID
	watchers int  // feeds that are open, as far as autoEnd was told
	leaving  bool // the daemon shuts down: nothing begins any more

	toolOrdinal uint64            // of the tool request that went out last; names its timer
	answered    []answeredRequest // oldest first; replaced, never changed in place
}

// turn is what is known of the active operation besides its record.
type turn struct {
	id        uint64
	phase     phase
	text      string       // what the provider is to be told; "" once it was
	again     bool         // the text is being sent for the second time, since nothing of it was sent
	gone      *fault.Error // the runtime went away while the text was being written
	operation Operation    // as stored, so that the outcome can be added

	fresh     bool // this operation opened the provider session
	lastFrame time.Time

	open  []byte // text of the message that is not complete yet; see appendOpen
	reply string // prepare: what the agent has answered, cut a code point or so behind maxAckBytes

	tools broker

	verdict  verdict
	doom     *fault.Error // with verdictDoomed
	enders   []CallerID
	cancels  []CallerID
	reserved bool      // the next block of sequence numbers was asked for
	retryAt  time.Time // when to ask again after that failed
}

// phase is how far a turn has come.
type phase uint8

const (
	attaching phase = iota + 1 // the provider session is being opened; nothing was written
	starting                   // the text is being written; it may have arrived
	sent                       // the provider has it
)

// verdict is what has been decided about a turn that still runs. A larger one
// overrules a smaller one.
type verdict uint8

const (
	undecided     verdict = iota
	verdictDoomed         // it fails with turn.doom
	verdictCancel         // it was cancelled
	verdictEnd            // the thread ends
)

// Bounds of what a provider says.
const (
	reserveRetry    = time.Second // after a block of sequence numbers could not be reserved
	maxAckBytes     = 4096        // bytes of a prepare's reply that are kept; a longer one is no acknowledgement
	maxAckDetail    = 2048        // bytes of a wrong acknowledgement that error details show
	maxDeltaBytes   = 64 << 10    // a longer fragment is told in pieces
	maxMessageBytes = 900 << 10   // as a JSON string; a longer message is told in parts
)

// NewState returns the state of a thread that was just loaded or made. self is
// this daemon's instance id; active is the stored active operation, if the
// record names one.
func NewState(l Loaded, active Operation, self string) State {
	s := State{Record: l.Record, Operations: l.Operations, self: self}
	if s.Active != nil {
		s.turn.operation = active
	}
	return s
}

// Snapshot returns what a client is told of the thread.
func (s *State) Snapshot() Snapshot {
	return Snapshot{
		ThreadID:      s.ID,
		Status:        s.Status,
		LatestSeq:     s.LatestSeq,
		Usage:         s.Usage,
		Active:        s.Active,
		LastCompleted: s.LastCompleted,
		PendingTool:   s.turn.tools.pending(s.Active),
		ActiveMessage: openTail(s.turn.open),
	}
}

// OpenMessage returns the text of the message that is not complete yet. The
// bytes stay as they are while newer states are built.
func (s *State) OpenMessage() []byte { return s.turn.open }

// Idle reports whether nothing runs and nobody waits, so that the thread may be
// unloaded.
func (s *State) Idle() bool { return s.Active == nil && len(s.resuming) == 0 }

// TurnID returns the id of the turn that runs, or 0.
func (s *State) TurnID() uint64 { return s.turn.id }

// Decided reports whether the turn that runs was told to stop.
func (s *State) Decided() bool { return s.turn.verdict != undecided }

// prepared reports whether a prepare has nothing to do. A conversation is never
// risked for a warm-up, so one with a finished user turn counts.
func (s *State) prepared() bool {
	return s.Prepared || s.Session.Resumable && s.Session.UserTurn
}
