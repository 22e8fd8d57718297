// Package proc runs the daemon's child processes, called runtimes here: it
// starts them, frames what they print, feeds their input, stops them with
// everything that they started, and finds leftovers after a crash.
//
// It owns each runtime's pipes, its process group (on Windows: its Job), its
// entry in the ledger, and the random runtime id that the entry and the
// environment of every descendant carry. The id is what makes a complete stop
// possible: agents put their tools into sessions of their own, which no signal
// to a group reaches once the agent is dead.
//
// It also runs programs for what they print, which are no runtimes: Output.
//
// It never interprets a frame, never restarts anything, never decides that an
// agent is too slow; that is the provider's business. It holds no secret, and
// logs no line that a runtime printed.
//
// Concurrency: every exported method is safe for concurrent use. A process has
// four goroutines besides its supervisor: one reads stdout and calls
// Spec.OnFrame, one reads stderr, one writes stdin, one waits for the exit; the
// supervisor waits for them and closes Done. All starts happen on one goroutine
// that is locked to its thread, because on Linux a child's parent-death signal
// fires when the thread that started it ends.
//
// Failure model: a start that fails at any step leaves neither a process nor a
// ledger entry; if even the entry's removal fails, the next start of the daemon
// removes it. A runtime that stops reading its input, closes its output, or
// makes OnFrame panic is stopped, and its Exit says why. What a process hides
// by clearing its own environment and leaving its group is not found.
package proc
