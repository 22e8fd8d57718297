// Command pedelec-core is the daemon that keeps agent threads, and the command
// line that starts, asks and stops it.
//
// It owns wiring only: flags, the home folder, the instance lock, logs,
// signals, and the order in which parts are opened and closed. One file holds
// one command; daemon.go holds the order.
//
// It never decides anything about threads, agents or the wire: the packages
// under internal do. Commands speak to a running daemon over its own protocol,
// like any other client.
//
// Concurrency: a command runs on one goroutine and waits for those that it
// starts. The daemon's goroutines belong to the parts that start them; serve
// waits for all of them before it returns.
//
// Failure model: an error is printed once, as a sentence, and becomes the exit
// status (0 done, 1 failed, 2 wrong command line, 3 no daemon answers). A
// daemon that is told to leave does so within ten seconds, whatever its agents
// do.
package main
