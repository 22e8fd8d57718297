package proc

import "bytes"

// killRounds is how often processes are looked for: a process that forks while the
// first round passes leaves its child to the second.
const killRounds = 2

// targets says which processes are to be killed.
type targets struct {
	ids    map[string]bool // those that carry one of these runtime ids
	groups map[int]bool    // and those in one of these process groups
}

var idPrefix = []byte(RuntimeIDEnv + "=")

// carriesID reports whether an environment, as variables that end in NUL, has
// one of the runtime ids.
func carriesID(environ []byte, ids map[string]bool) bool {
	for len(environ) > 0 {
		i := bytes.Index(environ, idPrefix)
		if i < 0 {
			return false
		}
		value := environ[i+len(idPrefix):]
		id, rest, _ := bytes.Cut(value, []byte{0})
		if (i == 0 || environ[i-1] == 0) && ids[string(id)] {
			return true
		}
		environ = rest
	}
	return false
}
