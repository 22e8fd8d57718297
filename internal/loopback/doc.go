// Package loopback decides who may connect to the daemon: it makes the
// listeners, tells which user stands behind a TCP connection, recognises
// openings that are not ours, and holds the rules for Host and Origin.
//
// It owns every rule of that kind, so that there is one place to read and one
// table to test: which address may be listened on, how many connections there
// may be, what an origin is, which HTTP requests reach a route, and how secrets
// are made and compared.
//
// It never parses a request of the wire protocol, never decides what an
// admitted caller may do with a thread, and sends nothing to a peer that it
// refuses except an HTTP status.
//
// Concurrency: everything is safe for concurrent use; it starts no goroutine.
//
// Failure model: in doubt a connection is refused, also while the system could
// not be asked for a peer's user. Where it cannot tell at all, whoever made the
// PeerCheck hears of it once, to tell the operator.
package loopback
