// Package leak makes the tests of a package fail when a goroutine or an open file is
// left after the last of them. It is for TestMain only.
//
// Goroutines are looked for everywhere, open files where the system lists them, which
// is on Linux. Both are given a moment to go.
package leak
