// Package store keeps threads on disk: one bbolt file with records, journals,
// operations, and two small ledgers.
//
// It owns the file and its schema, the committer that writes it, the retention
// of journals and operations, backups, compaction, and what happens to a file
// that is damaged, older or newer.
//
// It never interprets a thread: it decides no status, invents no event and
// looks at no clock but for naming files and dating the database. It refuses
// only what would break what it promises: a thread created twice, a sequence
// number used twice, a revision that goes back.
//
// Concurrency: every method is safe for concurrent use between Open and Close.
// Callers prepare bytes in their own goroutine; one committer goroutine takes
// whatever waits, makes one transaction of it, syncs, and answers everybody.
// Reads run in short transactions beside it. A backup is the one long read: a
// compaction makes way for it, and it makes way for a reopening and for Close.
//
// Failure model: a call that returned nil is on disk. A call that returned an
// error changed nothing: STORAGE_FULL when there was no room, STORAGE_FAILED
// when the file could not be read or written, OVERLOADED when too much waits,
// THREAD_NOT_FOUND for an unknown thread. If bbolt reports a failed commit the
// file is reopened and asked which of the two it was. A read that meets damage
// fails alone, a scan leaves out the damaged thread, or page, and goes on behind it,
// and Healthy tells from then on.
package store
