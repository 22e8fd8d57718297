// Command fuzzall runs every fuzz test of this module for a while each, several side
// by side, and stops at the first that fails. It is what `make fuzz` runs, from the
// module's root folder.
//
// It owns nothing but a temporary folder with the test binaries. What the engine
// finds goes where `go test -fuzz` puts it: inputs that fail into the package's
// testdata/fuzz, to be committed with the mend, and interesting ones into the build
// cache.
//
// Concurrency: each test runs in a process of its own, with one worker. One that
// failed ends all others.
//
// Failure model: an exit status that is not 0 means that an input made a test fail,
// that a test does not compile, or that the run was interrupted. A fault of the
// engine itself is told apart, see [judge].
package main
