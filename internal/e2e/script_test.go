package e2e

import (
	"fmt"
	"regexp"
	"strings"
)

// verb is what a line of a scene does.
type verb int

const (
	say        verb = iota // comment or blank line: kept as it is
	request                // NAME> TYPE [PAYLOAD]: send, show the response
	requestAll             // NAME>> TYPE [PAYLOAD]: send, show all that comes up to the response
	post                   // NAME~> TYPE [PAYLOAD]: send only
	raw                    // NAME raw TEXT: send a line as it stands
	await                  // NAME: WHAT: show what comes, up to WHAT
	hangUp                 // NAME close: close the connection
	halfClose              // NAME half-close: say that no more requests follow
	act                    // ! ACTION: do something to the daemon, the agent or the disk
)

// step is one line of a scene.
type step struct {
	verb verb
	text string // the line as written
	conn string
	opts map[string]string // envelope members in brackets behind the name
	word string            // request type, event to wait for, or action
	rest string            // payload or further arguments
}

var (
	requestLine = regexp.MustCompile(`^([a-z][a-z0-9]*)(?:\[([^\]]*)\])?(>>|~>|>) (\S+)(?: (.*))?$`)
	awaitLine   = regexp.MustCompile(`^([a-z][a-z0-9]*): (\S+)(?: (.*))?$`)
	plainLine   = regexp.MustCompile(`^([a-z][a-z0-9]*) (raw|close|half-close)(?: (.*))?$`)
	actLine     = regexp.MustCompile(`^! (\S+)(?: (.*))?$`)
	outputLine  = regexp.MustCompile(`^([a-z][a-z0-9]*|!)< `)
)

// parseScript returns the steps of a scene; expected output is left out.
func parseScript(scene string) ([]step, error) {
	var steps []step
	for n, line := range strings.Split(strings.TrimSuffix(scene, "\n"), "\n") {
		if outputLine.MatchString(line) {
			continue
		}
		s, ok := parseStep(line)
		if !ok {
			return nil, fmt.Errorf("line %d is none of the forms of the corpus: %q", n+1, line)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func parseStep(line string) (step, bool) {
	s := step{text: line}
	if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
		return s, true
	}
	if m := requestLine.FindStringSubmatch(line); m != nil {
		s.verb = map[string]verb{">": request, ">>": requestAll, "~>": post}[m[3]]
		s.conn, s.word, s.rest, s.opts = m[1], m[4], m[5], map[string]string{}
		for _, opt := range strings.Fields(m[2]) {
			key, value, _ := strings.Cut(opt, "=")
			s.opts[key] = value
		}
		return s, true
	}
	if m := plainLine.FindStringSubmatch(line); m != nil {
		s.verb = map[string]verb{"raw": raw, "close": hangUp, "half-close": halfClose}[m[2]]
		s.conn, s.rest = m[1], m[3]
		return s, true
	}
	if m := awaitLine.FindStringSubmatch(line); m != nil {
		s.verb, s.conn, s.word, s.rest = await, m[1], m[2], m[3]
		return s, true
	}
	if m := actLine.FindStringSubmatch(line); m != nil {
		s.verb, s.word, s.rest = act, m[1], m[2]
		return s, true
	}
	return s, false
}
