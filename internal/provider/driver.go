package provider

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// MaxMessageBytes bounds the text of one assistant message that a runtime gathers.
// No model writes so much; an agent that does not end a message would take all
// memory. A turn that goes over it fails with PROVIDER_PROTOCOL_ERROR, alone.
const MaxMessageBytes = 64 << 20

// Driver knows one provider's program and protocol. One process serves all
// threads, unless PerThread is set.
type Driver struct {
	Provider thread.Provider
	Programs []string // executables to look for, best first
	// Native, if set, returns the program behind one that was found and only
	// launches it, or "".
	Native func(path string) string
	Args   []string // follow the program and its leading arguments

	// HelpArgs make the program describe its protocol; HelpWord is in the output
	// of one that offers it.
	HelpArgs []string
	HelpWord string

	Inherit []string // variables of the daemon's environment that the program may see; a trailing * is a prefix
	// Env returns variables that the program needs. lookup reads the environment
	// that it would have otherwise.
	Env     func(p thread.Permission, lookup func(string) string) (map[string]string, error)
	Secrets []string // variables of Env that must not show anywhere

	HandshakeTimeout time.Duration // from start to the end of the greeting

	// New returns the protocol's side of a process that is about to start.
	New func(Link) Runtime

	PerThread *PerThread
}

// PerThread is how a provider is run whose program serves one thread only.
type PerThread struct {
	MaxAlive int           // processes at once; the one that was idle for longest makes room
	IdleStop time.Duration // a process without a turn for so long stops; its thread resumes when it wants to
	// Launch decides how a thread's process is started. A handshake that fails with
	// PROVIDER_SESSION_LOST is followed by a launch without SessionSpec.SessionID.
	Launch func(thread.SessionSpec) (Launch, error)
}

// Launch is what one thread's process is started with.
type Launch struct {
	Args      []string // follow the driver's
	Dir       string   // where it runs
	SessionID string   // of the provider session that it opens or resumes
	Fresh     bool     // it opens one
	Spec      thread.SessionSpec
}

// Link is what a runtime gets from its supervisor.
type Link struct {
	Write    func(ctx context.Context, line []byte) error // writes one line to the program
	Post     func(line []byte) error                      // queues one line and does not wait
	Changed  func()                                       // a session or turn came or went; never blocks
	Log      zerolog.Logger
	Redactor *fault.Redactor
	BinDir   string                   // holds pedelec-cli; "" = none
	Lookup   func(name string) string // reads the program's environment
	Launch   *Launch                  // of a process that serves one thread; nil = it serves all
}

// Runtime speaks one running program's protocol for all its sessions.
type Runtime interface {
	// Feed takes a frame from the program and Skipped the ends of one that was too
	// long. Both, and Gone, are called one after the other, never at once.
	Feed(frame []byte)
	Skipped(head, tail []byte)
	// Gone says that the process is gone. Nothing follows.
	Gone(loss *fault.Error)

	// Handshake greets the program. Its error is a *fault.Error.
	Handshake(ctx context.Context) error
	// Attach opens or resumes a session; see lifecycle.Runtimes.
	Attach(ctx context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, error)
	// Detach drops what the runtime still says of a thread that now lives
	// elsewhere. No frame reaches the thread's sink once it returned.
	Detach(threadID string)
	// Settled returns a channel that is closed when the thread has no quarantined
	// session here any more, or nil if it has none now.
	Settled(threadID string) <-chan struct{}
	// Drain makes the conversations not alive unless they run a turn or were opened
	// for one that is about to begin.
	Drain()
	// Retire reports whether no such turn is left, and lets none begin from then on.
	Retire() bool
	Load() Load
	// Broken is closed when the program cannot be talked to any more.
	Broken() <-chan struct{}
	// Farewell cancels what runs, best effort, before the process is stopped.
	Farewell(ctx context.Context)
}

// Load is what a runtime carries.
type Load struct {
	Sessions    int  // open ones
	Turns       int  // that run, quarantined ones not counted
	Reserved    int  // sessions that were opened for a turn which is about to begin
	Quarantined int  // sessions whose old turn was given up and not yet answered
	Spent       bool // nothing can be opened any more; the process may stop at once
}
