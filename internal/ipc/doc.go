// Package ipc is how programs and web pages talk to the daemon: newline-delimited
// JSON over loopback TCP, the same messages over a WebSocket, the HTTP routes for
// probes and metrics, and the Go client that our own commands use.
//
// It owns the wire: envelopes, request and result shapes, event and snapshot
// encoding, size limits, the order of lines on a connection, the files in which a
// client finds the daemon, and which web origins the user has approved. What a
// request means is the same over both transports: a [conn] reads lines and runs
// them in order, a [socket] reads messages and runs them side by side, and all the
// rest is their [link] and the table of routes.
//
// It never decides what a thread does: every request that names one becomes a
// method call on [Threads]. It keeps no state but connections, their
// subscriptions and what was decided about origins, and never writes a line that
// nobody asked for.
//
// Concurrency: a connection has one reader and, once it subscribed, one pump that
// writes events. Over TCP at most one goroutine runs its requests in order; a
// WebSocket has one goroutine for each of its requests in flight, begun in order
// for each thread, and one for control frames. A
// [Server] is safe for concurrent use; [Server.Shutdown] waits for every
// goroutine that it started.
//
// Failure model: bad input gets a documented error and changes nothing. A
// request that was begun is answered before its connection closes, also during
// shutdown; only a page whose origin is revoked is told nothing more. A client that does not read is cut after [DefaultWriteTimeout]. A
// panic is recovered at the entry of each connection goroutine, counted, logged
// and answered with INTERNAL.
package ipc
