// Package fault is the vocabulary of failure: one error type, one table of
// codes, one redactor, and the named points at which tests make the daemon
// fail on purpose.
//
// It owns the code table (meaning, HTTP status, exit status), from which the
// wire documentation and its golden test are made.
//
// It never logs, never decides whether something is retried, and imports only
// the standard library, so that every other package may import it.
//
// Concurrency: everything here is safe for concurrent use. Errors are
// immutable once built.
//
// Failure model: none of its functions fail. A code that is not in the table
// reads as [Internal] wherever a status is asked for.
package fault
