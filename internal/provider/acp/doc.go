// Package acp speaks the Agent Client Protocol, version 1, with the two agents
// that know it: OpenCode and Cursor.
//
// It owns what the protocol leaves open: where a message ends, which session a
// late frame belongs to, how a turn that nobody can stop is fenced off, what an
// agent's requests are answered with, and which way a session's frontend tools
// reach the agent: over MCP where only this session can call them, else by command.
//
// It never starts a process (it is handed lines and writes lines), never sends a
// prompt twice, and grants nothing that [provider.Policy] does not allow.
//
// Concurrency: one [Runtime] serves all sessions of one process under one mutex,
// under which only memory is touched. Everything that the agent says is handled
// on the process's reader, in order; so a session's sink gets its frames from one
// goroutine. Questions for permission are judged on goroutines of their own,
// since that looks at the disk; Gone waits for them.
//
// Failure model: a request that is refused or not answered fails its caller. A
// line that makes no sense is skipped. The end of the process ends each running
// turn with one terminal frame. A turn that does not end after a cancel is
// fenced off: nothing of it reaches its thread, and the thread waits for its end
// before it gets a session again.
package acp
