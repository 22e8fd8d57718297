// Package ipc is how programs talk to the daemon: newline-delimited JSON over
// loopback TCP, the HTTP routes for probes and metrics, and the Go client that
// our own commands use.
//
// It owns the wire: envelopes, request and result shapes, event and snapshot
// encoding, size limits, the order of lines on a connection, and the files in
// which a client finds the daemon.
//
// It never decides what a thread does: every request that names one becomes a
// method call on [Threads]. It keeps no state but connections and their
// subscriptions, and never writes a line that nobody asked for.
//
// Concurrency: a connection has one reader, at most one goroutine that runs its
// requests in order, and, once it subscribed, one pump that writes events. A
// [Server] is safe for concurrent use; [Server.Shutdown] waits for every
// goroutine that it started.
//
// Failure model: bad input gets a documented error and changes nothing. A
// request that was begun is answered before its connection closes, also during
// shutdown. A client that does not read is cut after [DefaultWriteTimeout]. A
// panic is recovered at the entry of each connection goroutine, counted, logged
// and answered with INTERNAL.
package ipc
