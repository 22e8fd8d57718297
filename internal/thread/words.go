package thread

import "slices"

// Status is where a thread stands. The numbers are stored; never renumber.
type Status uint8

// The statuses; docs/LIFECYCLE.md says what each means.
const (
	Idle              Status = 1
	Running           Status = 2
	WaitingToolResult Status = 3
	Stopping          Status = 4
	Ended             Status = 5
	Failed            Status = 6 // "error" on the wire
)

var statusWords = [...]string{Idle: "idle", Running: "running", WaitingToolResult: "waitingToolResult", Stopping: "stopping", Ended: "ended", Failed: "error"}

// Statuses lists every status once.
var Statuses = []Status{Idle, Running, WaitingToolResult, Stopping, Ended, Failed}

// String returns the wire word.
func (s Status) String() string { return word(statusWords[:], uint8(s)) }

// ParseStatus returns the status of a wire word.
func ParseStatus(w string) (Status, bool) {
	i := parse(statusWords[:], w)
	return Status(i), i > 0
}

// InTurn reports whether an operation is active in this status.
func (s Status) InTurn() bool { return s == Running || s == WaitingToolResult || s == Stopping }

// OperationKind tells a user's turn from a preparation. The numbers are stored.
type OperationKind uint8

// The kinds of operation.
const (
	User    OperationKind = 1
	Prepare OperationKind = 2
)

var kindWords = [...]string{User: "user", Prepare: "prepare"}

// String returns the wire word.
func (k OperationKind) String() string { return word(kindWords[:], uint8(k)) }

// Provider is an agent backend. The numbers are stored.
type Provider uint8

// The providers, in the order in which clients list them.
const (
	Codex       Provider = 1
	Antigravity Provider = 2
	OpenCode    Provider = 3
	Cursor      Provider = 4
	Claude      Provider = 5
	Ollama      Provider = 6
)

var (
	providerCodes = [...]string{Codex: "codex", Antigravity: "antigravity", OpenCode: "opencode", Cursor: "cursor", Claude: "claude", Ollama: "ollama"}
	providerNames = [...]string{Codex: "Codex", Antigravity: "Antigravity", OpenCode: "OpenCode", Cursor: "Cursor", Claude: "Claude Code", Ollama: "Ollama"}
)

// Providers lists every provider in the documented order.
var Providers = []Provider{Codex, Antigravity, OpenCode, Cursor, Claude, Ollama}

// String returns the wire code, such as "opencode".
func (p Provider) String() string { return word(providerCodes[:], uint8(p)) }

// Name returns what people call it, such as "Claude Code".
func (p Provider) Name() string { return word(providerNames[:], uint8(p)) }

// ParseProvider returns the provider of a wire code.
func ParseProvider(code string) (Provider, bool) {
	i := parse(providerCodes[:], code)
	return Provider(i), i > 0
}

// Effort is how hard the agent shall think. The numbers are stored.
type Effort uint8

// The effort levels.
const (
	DefaultEffort Effort = 1
	LowEffort     Effort = 2
	HighEffort    Effort = 3
)

var effortWords = [...]string{DefaultEffort: "default", LowEffort: "low", HighEffort: "high"}

// Efforts lists every level once.
var Efforts = []Effort{DefaultEffort, LowEffort, HighEffort}

// String returns the wire word.
func (e Effort) String() string { return word(effortWords[:], uint8(e)) }

// ParseEffort returns the level of a wire word.
func ParseEffort(w string) (Effort, bool) {
	i := parse(effortWords[:], w)
	return Effort(i), i > 0
}

// Permission is what an agent may do without asking.
type Permission uint8

// The permissions.
const (
	PermitWorkspace Permission = 1 // edits inside the workspace; the default
	PermitReadOnly  Permission = 2
	PermitFull      Permission = 3
)

var permissionWords = [...]string{PermitWorkspace: "workspace", PermitReadOnly: "read-only", PermitFull: "full"}

// String returns the settings word.
func (p Permission) String() string { return word(permissionWords[:], uint8(p)) }

// ParsePermission returns the permission of a settings word.
func ParsePermission(w string) (Permission, bool) {
	i := parse(permissionWords[:], w)
	return Permission(i), i > 0
}

func word(words []string, i uint8) string {
	if int(i) < len(words) {
		return words[i]
	}
	return ""
}

// parse returns the index of w, or 0; index 0 of every list is unused.
func parse(words []string, w string) int {
	if w == "" {
		return 0
	}
	return max(0, slices.Index(words, w))
}
