// Package e2e tests the built program from outside, as its clients meet it:
// it starts the real binary with a home of its own, speaks the wire protocol
// over TCP byte for byte, and lets the daemon drive a real child process as
// agent.
//
// It owns the wire corpus (testdata/corpus, see the README there), the bad-input
// suite, the crash suites of the daemon (TestCrash) and of agents (TestCrashOfAgents),
// the search for secrets in what the daemon says, the benchmarks, and the opt-in tests that drive real agent programs against the model
// server in package modelserver, and a real browser by the script in folder browser.
//
// It never links the daemon's own transport or client: what a test reads is what
// was on the wire. The packages that it does import are vocabulary (failpoint
// names, statuses) and the store, to prepare large databases for benchmarks and to
// look into one that a daemon has left.
//
// Concurrency: tests run in parallel; each has its own home, daemon and ports.
// A connection is used by one goroutine, and its reader belongs to it.
//
// Failure model: every process that a test starts is ended by its id when the
// test ends, whatever happened; when a test fails, the end of the daemon's log is
// printed with it.
//
// Flags, given after the package:
//
//	-update            rewrite the corpus' expectations from what the daemon says
//	-crash.rounds N    rounds of the crash suites
//	-crash.seed N      let them draw the same lots again; what meets when is up to the machine
//	-starts.rounds N   rounds of starts at the same moment
//	-real              also drive real agent programs; needs npm the first time
//	-browser           also drive a real browser; needs Node.js, and apt or npm the first time
//	-soak TIME         run mixed load for so long, print what the daemon holds as a table
//	-bench.write FILE  write the table of measured figures
package e2e
