package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// names gives what differs from run to run a name that does not: the third
// thread that a scenario meets is $t3, whatever its id.
type names struct {
	fixed  []replacement     // known beforehand, such as the home's path
	labels map[string]string // value → label
	values map[string]string // label → value
	counts map[string]int    // by prefix
	seqs   map[string]*sequence
}

type replacement struct{ value, label string }

func newNames() *names {
	return &names{labels: map[string]string{}, values: map[string]string{}, counts: map[string]int{}, seqs: map[string]*sequence{}}
}

// fix names a value that is known beforehand; a later value takes the name over.
func (n *names) fix(label, value string) {
	if value == "" {
		return
	}
	n.fixed = slices.DeleteFunc(n.fixed, func(r replacement) bool { return r.label == label })
	n.fixed = append(n.fixed, replacement{value, label})
	// The longest first, so that a folder is not taken for its parent.
	slices.SortFunc(n.fixed, func(a, b replacement) int { return len(b.value) - len(a.value) })
	n.values[label] = value
}

// label returns the name of a value, a new one at the first sight of it.
func (n *names) label(prefix, value string) string {
	if l, ok := n.labels[value]; ok {
		return l
	}
	n.counts[prefix]++
	l := "$" + prefix + strconv.Itoa(n.counts[prefix])
	n.labels[value], n.values[l] = l, value
	return l
}

var (
	threadID    = regexp.MustCompile(`\bt[0-9a-z]{16}\b`)
	operationID = regexp.MustCompile(`operation_[0-9]+_[0-9a-f]{32}`)
	anyTime     = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	release     = regexp.MustCompile(`^\d+\.\d+\.\d+`)
	reference   = regexp.MustCompile(`\$[a-z]+[0-9]*`)
	agentPID    = regexp.MustCompile(`\bpid=[0-9]+`)
	session     = regexp.MustCompile(`\bses_[a-z0-9]+`)
	toolRequest = regexp.MustCompile(`\btoolreq_[0-9]+_[0-9a-f]{16}\b`)
	transferID  = regexp.MustCompile(`\b(upl|dnl)_[0-9a-f]{16}\b`)
	secret      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	repetition  = regexp.MustCompile(`\$repeat\(([^,)]*),([0-9]+)\)`)
)

// expand puts values in the place of names in a line that is about to be sent.
func (n *names) expand(s string) (string, error) {
	var failed error
	s = repetition.ReplaceAllStringFunc(s, func(m string) string {
		parts := repetition.FindStringSubmatch(m)
		count, _ := strconv.Atoi(parts[2]) // the pattern allows digits only
		return strings.Repeat(parts[1], count)
	})
	s = reference.ReplaceAllStringFunc(s, func(name string) string {
		value, ok := n.values[name]
		if !ok {
			failed = fmt.Errorf("nothing is named %s yet", name)
		}
		return value
	})
	return s, failed
}

// text names what can be recognised inside a string.
func (n *names) text(s string) string {
	for _, r := range n.fixed {
		s = strings.ReplaceAll(s, r.value, r.label)
	}
	s = threadID.ReplaceAllStringFunc(s, func(id string) string { return n.label("t", id) })
	s = operationID.ReplaceAllStringFunc(s, func(id string) string { return n.label("op", id) })
	s = session.ReplaceAllStringFunc(s, func(id string) string { return n.label("s", id) })
	s = toolRequest.ReplaceAllStringFunc(s, func(id string) string { return n.label("req", id) })
	s = transferID.ReplaceAllStringFunc(s, func(id string) string { return n.label(id[:3], id) })
	s = agentPID.ReplaceAllLiteralString(s, "pid=$pid")
	if anyTime.MatchString(s) {
		return "$time"
	}
	return s
}

// maxShownText is the longest string that is shown whole, in bytes.
const maxShownText = 100

// freeText are members whose words are no contract.
var freeText = map[string]bool{"error": true, "stderr": true, "stderrTail": true}

// freeNumber are members that differ from run to run.
var freeNumber = map[string]string{"pid": "$pid", "processId": "$pid", "rssBytes": "$bytes", "expiresAt": "$ms", "modifiedAt": "$ms"}

// value names everything inside a JSON value. thread is the id of the thread that
// it speaks of, for sequence numbers.
func (n *names) value(key string, v any, thread string) any {
	switch v := v.(type) {
	case map[string]any:
		if id, ok := v["threadId"].(string); ok {
			thread = id
		}
		out := make(map[string]any, len(v))
		for k, member := range v {
			out[k] = n.value(k, member, thread)
		}
		if code, ok := v["code"].(string); ok && v["isDefault"] != nil && code != "opencode" && code != "cursor" {
			out["available"], out["error"] = "$any", "$any" // what is installed on this machine
		}
		if _, isError := v["code"]; isError && v["message"] != nil && v["message"] != "" {
			delete(out, "message") // free text, never empty
		}
		return out
	case []any:
		if key == "capabilities" {
			return "$capabilities" // they grow; the server's own tests have them
		}
		out := make([]any, len(v))
		for i, member := range v {
			out[i] = n.value(key, member, thread)
		}
		return out
	case string:
		return n.member(key, v)
	case float64:
		return n.number(key, v, thread)
	case bool:
		if key == "deltasOmitted" {
			return "$bool" // they may still be in memory, or not
		}
	}
	return v
}

func (n *names) member(key, s string) string {
	switch {
	case s == "":
		return s
	case key == "providerSessionId":
		return n.label("s", s)
	case key == "version" && release.MatchString(s):
		return "$version"
	case freeText[key]:
		return "$text"
	case key == "runtimeId":
		return n.label("runtime", s)
	case key == "token" && secret.MatchString(s):
		return n.label("ticket", s)
	}
	return n.shown(s)
}

// shown is text, cut if it is long.
func (n *names) shown(s string) string {
	size := len(s)
	s = n.text(s)
	if len(s) > maxShownText {
		return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:40], ""), size)
	}
	return s
}

func (n *names) number(key string, v float64, thread string) any {
	switch key {
	case "seq", "latestSeq", "fromSeq", "toSeq", "nextSeq":
		return n.seq(thread, uint64(v))
	}
	if label, ok := freeNumber[key]; ok {
		return label
	}
	return jsontext.Value(strconv.FormatFloat(v, 'f', -1, 64))
}

// sequence shows a thread's numbers as they are, except that a run of adjacent
// deltas counts as one number: the daemon may merge deltas.
type sequence struct {
	runs []span // in order, not overlapping
}

type span struct{ first, last uint64 }

func (n *names) seq(thread string, v uint64) uint64 {
	s := n.seqs[thread]
	if s == nil {
		return v
	}
	shown := v
	for _, r := range s.runs {
		if r.first < v {
			shown -= min(v, r.last) - r.first
		}
	}
	return shown
}

// delta notes a run of deltas.
func (n *names) delta(thread string, first, last uint64) {
	s := n.seqs[thread]
	if s == nil {
		s = &sequence{}
		n.seqs[thread] = s
	}
	for i := range s.runs {
		if r := &s.runs[i]; first <= r.last+1 && last+1 >= r.first {
			r.first, r.last = min(r.first, first), max(r.last, last)
			return
		}
	}
	s.runs = append(s.runs, span{first, last})
	slices.SortFunc(s.runs, func(a, b span) int { return int(int64(a.first) - int64(b.first)) })
}

// render returns a JSON value with everything named, keys in order, in one line.
func (n *names) render(raw jsontext.Value, thread string, without ...string) (string, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", err
	}
	if m, ok := v.(map[string]any); ok {
		v = n.value("", m, thread)
		for _, key := range without {
			delete(v.(map[string]any), key)
		}
	} else {
		v = n.value("", v, thread)
	}
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.EscapeForHTML(false))
	return string(b), err
}
