// Package jsonrpc speaks JSON-RPC with a child process, one JSON object a line:
// version 2.0 as ACP agents want it, or without the version member.
//
// It owns the ids of our requests, the answers that wait for them, the order of
// what is written, and the rule by which a silent peer is given up.
//
// It never starts or stops a process, never reads one (lines are handed to
// [Conn.Feed]) and knows no method by name.
//
// Concurrency: Feed is called by one goroutine, the reader. The handler and the
// answers of [Conn.Go] run on it, in the order of the lines, and must not block.
// Everything else may be called from anywhere. The package starts no goroutine.
//
// Failure model: a line that makes no sense is counted and skipped. A request
// that is not answered in time fails alone. The connection as a whole breaks
// ([Conn.Done]) when its owner closes it, or when several requests in a row were
// not answered while the peer was silent altogether; the cause is in [Conn.Err].
package jsonrpc
