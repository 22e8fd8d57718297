package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
)

// agentNotes is what the scripted agents of a home have written down themselves of
// what they were told, whatever the daemon says of it.
type agentNotes struct {
	dir  string
	read map[string]*notebook // by path

	turns        map[string][]handedTurn // by operation, as texts are marked
	preparations map[string]int          // by workspace
	answers      map[string][]string     // tool request → numbers of the answers that agents repeated
}

// handedTurn is a turn as an agent got it.
type handedTurn struct {
	session string
	pid     int
}

// notebook is the file of one session, as far as it was read.
type notebook struct {
	size int64
	cwd  string
}

func newAgentNotes(home string) *agentNotes {
	return &agentNotes{
		dir: filepath.Join(filepath.Dir(home), "sessions"), read: map[string]*notebook{},
		turns: map[string][]handedTurn{}, preparations: map[string]int{}, answers: map[string][]string{},
	}
}

// catchUp reads what was written since the last time.
func (n *agentNotes) catchUp() error {
	paths, err := filepath.Glob(filepath.Join(n.dir, "*.jsonl"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		book := n.read[path]
		if book == nil {
			book = &notebook{}
			n.read[path] = book
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Size() == book.size {
			continue
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fresh := whole[book.size:]
		fresh = fresh[:bytes.LastIndexByte(fresh, '\n')+1] // the rest is still being written, or torn
		book.size += int64(len(fresh))
		for line := range bytes.Lines(fresh) {
			n.note(strings.TrimSuffix(filepath.Base(path), ".jsonl"), book, line)
		}
	}
	return nil
}

// note takes one line of a notebook. Torn ones say nothing.
func (n *agentNotes) note(session string, book *notebook, line []byte) {
	var r struct {
		Kind        string `json:"kind"`
		Cwd         string `json:"cwd"`
		Text        string `json:"text"`
		Preparation bool   `json:"preparation"`
		PID         int    `json:"pid"`
	}
	if json.Unmarshal(line, &r) != nil {
		return
	}
	switch r.Kind {
	case "open":
		book.cwd = r.Cwd
	case "user":
		if r.Preparation {
			n.preparations[book.cwd]++
		}
		if op, ok := markOf(r.Text); ok {
			n.turns[op] = append(n.turns[op], handedTurn{session, r.PID})
		}
	case "agent":
		for _, mark := range answerMark.FindAllStringSubmatch(r.Text, -1) {
			n.answers[mark[1]] = append(n.answers[mark[1]], mark[2])
		}
	}
}
