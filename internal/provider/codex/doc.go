// Package codex drives `codex app-server`: one process for all threads, which
// speaks JSON-RPC without the version member, a line a message.
//
// It owns what the protocol leaves open: which turn a frame belongs to, what is
// the text of a message, how a turn that nobody can stop is fenced off, how a
// conversation moves from a process that shall go to its successor, and what the
// agent's requests are answered with.
//
// It never starts a process (it is handed lines and writes lines), never sends a
// turn twice, and never lets a text join a turn that runs, which the agent would
// do silently. The agent works in its own sandbox, as wide as the thread's
// permission; what it still asks for is refused.
//
// Concurrency: one [Runtime] serves all sessions of one process under one mutex,
// under which only memory is touched. Everything that the agent says is handled on
// the process's reader, in order, and none of it waits; so a session's sink gets
// its frames from one goroutine. Requests that follow from it are sent by
// goroutines for which Gone waits.
//
// Failure model: a request that is refused or not answered fails its caller. A
// line that makes no sense is skipped. The end of the process ends each running
// turn with one terminal frame. A turn that does not end after an interrupt is
// fenced off: nothing of it reaches its thread, and the thread waits for its end
// before it gets a session again.
package codex
