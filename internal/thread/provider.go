package thread

import "time"

// ProviderStatus tells whether a provider can be used on this machine.
type ProviderStatus struct {
	Provider  Provider
	Available bool
	Error     string // a sentence that says what to do; "" when available or not probed yet
	Path      string // the program that was found; "" = none
	Version   string // what it says of itself; "" = unknown
}

// RuntimeInfo describes a running provider process, for the operator.
type RuntimeInfo struct {
	RuntimeID string
	Provider  Provider
	PID       int
	StartedAt time.Time
	Sessions  int   // open provider sessions
	Turns     int   // turns that run
	RSSBytes  int64 // resident memory; 0 = the system does not tell
}
