// Package conformance is what every provider runtime must do, as tests: one table
// of behaviours that each driver's tests run on a fake program of its protocol.
//
// It owns the table, the manager with real child processes that the rows run on,
// and the fake programs for codex and Claude Code, which are the test binary
// started again. The fake of the Agent Client Protocol stands beside its driver.
//
// It never reaches a network or a real agent, and is linked into tests only.
//
// Concurrency: each row has its own manager and its own processes.
//
// Failure model: a row that waits in vain fails after a bounded time; the
// processes are ended with the row, whatever happened.
package conformance
