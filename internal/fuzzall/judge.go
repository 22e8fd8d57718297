package main

import (
	"bytes"
	"regexp"
)

// outcome is how a fuzz test ended.
type outcome uint8

const (
	passed outcome = iota
	failed
	cutShort // by a fault of the engine, at the end of its time
)

// inputFound are the words with which the engine tells of an input that made a test
// fail.
var inputFound = regexp.MustCompile(`Failing input written to|failure while testing seed corpus entry|fuzzing process hung or terminated|panic: `)

// deadline is all that the engine says when its own end went wrong: a line with the
// error of a context, and nothing of any input.
var deadline = regexp.MustCompile(`(?m)^    context deadline exceeded$`)

// judge tells a failure from a fault of Go's engine (seen with Go 1.26). At the end of
// -fuzztime its coordinator compares the error of a context with that of another
// which is derived from the first. For a moment the first is over and the second is
// not, and the end of the time is then reported as a failure, more often on a busy
// machine. No input is written in that case, and none was found.
func judge(exit error, output []byte) outcome {
	switch {
	case exit == nil:
		return passed
	case deadline.Match(output) && !inputFound.Match(output):
		return cutShort
	}
	return failed
}

var progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+) \(total: (\d+)\)`)

// summary returns what the engine says last of its work, for people.
func summary(output []byte) string {
	all := progress.FindAllSubmatch(output, -1)
	if len(all) == 0 {
		return "seeds only"
	}
	last := all[len(all)-1]
	return string(bytes.Join([][]byte{last[1], []byte(" inputs, "), last[2], []byte(" new of "), last[3]}, nil))
}
