package conformance

import (
	"os"
	"os/exec"
	"strings"
	"sync"
)

// tooLong is the length of a line that no reader takes, in bytes.
const tooLong = 17 << 20

// TooLong is a text that makes a line too long to be read.
func TooLong() string { return strings.Repeat("x", tooLong) }

// invalid stands for a byte that is no UTF-8, in what a fake with that habit says.
const invalid = "¿"

// Voice is the standard output of a fake agent, with the bad habits of real ones.
type Voice struct {
	mu       sync.Mutex
	crlf     bool // lines end as on Windows
	bytewise bool // each byte is a write of its own
	garbled  bool // what stands for invalid bytes is written as such
	unended  bool // a line is ended only when another follows
	begun    bool // such a line is not ended yet
}

// Print writes lines.
func (v *Voice) Print(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unended {
		text = strings.TrimSuffix(text, "\n")
		if v.begun {
			text = "\n" + text
		}
		v.begun = true
	}
	if v.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if v.garbled {
		text = strings.ReplaceAll(text, invalid, "\xff")
	}
	step := len(text)
	if v.bytewise {
		step = 1
	}
	for ; len(text) > 0; text = text[min(step, len(text)):] {
		_, _ = os.Stdout.WriteString(text[:min(step, len(text))])
	}
}

// Habit does a step of a script that is the same in every protocol, and reports
// whether it is one:
//
//	noise        prints blank lines, a banner, half an object, a NUL
//	long         prints a line of 17 MiB
//	flood        10 MiB on stderr
//	crlf         ends lines as on Windows from now on
//	bytes        writes each byte by itself from now on
//	garble       writes "¿" as a byte that is no UTF-8 from now on
//	unended      ends a line only when another follows, and exits behind the turn
//	half         prints half a line and exits with status 0
//	mute         closes stdout and lives on
//	orphan       exits with status 0 and leaves a child that holds its output
func (v *Voice) Habit(verb string) bool {
	switch verb {
	case "noise":
		v.Print("\n \t \n\r\n> Update available! 1.0 -> 2.0\n{\"half\":\n\x00\n{\"nul\":\"\x00\"}\n[1,2]\n7\n")
	case "long":
		v.Print(`{"type":"x","text":"` + TooLong() + "\"}\n")
	case "flood":
		_, _ = os.Stderr.WriteString(strings.Repeat("fake complains\n", 10<<20/15))
	case "crlf", "bytes", "garble", "unended":
		v.mu.Lock()
		defer v.mu.Unlock()
		v.crlf = v.crlf || verb == "crlf"
		v.bytewise = v.bytewise || verb == "bytes"
		v.garbled = v.garbled || verb == "garble"
		v.unended = v.unended || verb == "unended"
	case "half":
		v.Print(`{"type":"ha`)
		os.Exit(0)
	case "mute":
		v.mu.Lock() // for ever: there is nothing to write to
		_ = os.Stdout.Close()
	case "orphan":
		leaveOrphan()
		os.Exit(0)
	default:
		return false
	}
	return true
}

// TurnOver exits with status 0 where that is the habit.
func (v *Voice) TurnOver() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unended {
		os.Exit(0)
	}
}

// leaveOrphan starts a child that holds our output, in a session of its own.
func leaveOrphan() {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), knobsEnv+"="+orphanKnob)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	detach(child)
	_ = child.Start()
}

// orphanKnob makes the test binary such a child.
const orphanKnob = "orphan"
