// Package claude drives `claude -p` with JSON lines both ways: a process for each
// thread, since the protocol knows one conversation only.
//
// It owns what the protocol leaves open: how a process is started for a thread,
// when it is ready, which text is a message and which one a retry has made
// obsolete, what counts as usage, and what the agent's questions and tool calls are
// answered with.
//
// It never starts a process itself, never sends a text twice or while a turn runs
// (the agent would queue it), never writes anything but one JSON object a line (the
// agent exits on everything else), and grants nothing that [provider.Policy] does
// not allow.
//
// Concurrency: a [Runtime] has one session under one mutex, under which only memory
// is touched. Everything that the agent says is handled on the process's reader, in
// order; so the session's sink gets its frames from one goroutine. Questions for
// permission are judged on goroutines of their own, since that looks at the disk;
// Gone waits for them.
//
// Failure model: a conversation that the agent does not have fails the handshake
// with PROVIDER_SESSION_LOST, and another process is started for a fresh one. A
// line that makes no sense is skipped. The end of the process ends its turn with
// one terminal frame. A turn that does not end after an interrupt ends with its
// process.
package claude
