// Package mcp offers the frontend tools of threads to their agents, as a server
// of the Model Context Protocol: over HTTP at /mcp/<threadId>, and on standard
// streams for agents that know no HTTP.
//
// It owns the address and the secret under which one agent session reaches the
// tools of its thread, the sessions of the protocol below that address, and the
// translation in both directions: names as models may write them, results and
// errors in a form that a model can act on, and signs of life while a page takes
// its time.
//
// It never decides what a call may do or what becomes of it: that is the thread's
// business, behind [Threads]. It never accepts a call on the word of the caller
// alone: an agent may offer one thread's tools to all its conversations, so the
// thread's own conversation must have announced the call (see [Manager.Admit]).
// It logs no secret, no argument and no result.
//
// Concurrency: everything is safe for concurrent use. Each protocol session has
// goroutines of the SDK's; [Manager.Close] ends those of one thread in the
// background, and [Manager.Shutdown] waits for all.
//
// Failure model: what goes wrong with a call is told to the model as the call's
// result. A caller without the secret learns nothing, not even whether there is
// such a thread. A peer that does not read is cut off after a short time.
package mcp
