package mcp

import "time"

// Limits of what agents may ask for.
const (
	maxBodyBytes   = 1 << 20 // as long as a line of the daemon's own protocol
	maxRPCIDBytes  = 256     // of a request; agents count, or make a UUID
	maxSessions    = 16      // of the protocol, at one thread's address; an agent needs one
	maxThreadBytes = 128     // longest thread id that is looked up
)

// Durations of the server. Tests shorten them.
type Durations struct {
	Progress time.Duration // between two signs of life of a call that waits
	Idle     time.Duration // after which a protocol session without a request is closed
	IO       time.Duration // for the peer to send its request, or to take one write
}

// DefaultDurations suit agents: opencode gives a call up after 60 s without a sign
// of life. Idle is long since agents do not come back by themselves from a session
// that was closed, and a turn may work for hours before it calls a tool; a thread's
// sessions end with its address anyway.
var DefaultDurations = Durations{
	Progress: 15 * time.Second,
	Idle:     12 * time.Hour,
	IO:       10 * time.Second,
}
