package conformance

import (
	"bytes"
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Protocol is what a player must know of a protocol to find its way in a
// recording.
type Protocol struct {
	Key      func(line jsontext.Value) string // says which of our lines is which: its method, or type
	ID       []string                         // path to the id of our requests
	AnswerTo []string                         // path to that id in their answers
	IsAnswer func(line jsontext.Value) bool   // theirs answers one of ours
}

// Player stands in for a program that says again what a real one was recorded to
// say: after each line of ours that the recording has, what came after it.
type Player struct {
	t      *testing.T
	proto  Protocol
	frames []recorded
	lines  chan jsontext.Value
	early  []jsontext.Value          // lines of ours that were not waited for yet
	ids    map[string]jsontext.Value // recorded id → ours
	feed   func([]byte)
	over   chan struct{} // the test ends
	played chan struct{} // everything was said
	all    sync.WaitGroup
}

type recorded struct {
	Dir string         `json:"dir"` // in: to the program; out: from it
	Msg jsontext.Value `json:"msg"`
}

// Load reads a recording: a JSON object a line, {"dir":"in"|"out","msg":…}.
func Load(t *testing.T, path string, proto Protocol) *Player {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &Player{t: t, proto: proto, lines: make(chan jsontext.Value, 1000), ids: map[string]jsontext.Value{}, over: make(chan struct{}), played: make(chan struct{})}
	for line := range bytes.Lines(text) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		p.frames = append(p.frames, r)
	}
	return p
}

// Post takes a line of ours.
func (p *Player) Post(line []byte) error {
	p.lines <- bytes.Clone(line)
	return nil
}

// Write takes a line of ours.
func (p *Player) Write(_ context.Context, line []byte) error { return p.Post(line) }

// Play begins: feed gets the program's lines, one after the other.
func (p *Player) Play(feed func([]byte)) {
	p.feed = feed
	p.all.Go(p.play)
	p.t.Cleanup(func() {
		close(p.over)
		p.all.Wait()
	})
}

// Rest waits until the whole recording was played.
func (p *Player) Rest() {
	p.t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-p.played:
	case <-late.C:
		p.t.Error("the rest of the recording was not asked for")
	}
}

func (p *Player) play() {
	for _, frame := range p.frames {
		if frame.Dir == "out" {
			p.feed(p.rewrite(frame.Msg))
			continue
		}
		if !p.await(frame.Msg) {
			return
		}
	}
	close(p.played)
}

// await waits for the line of ours that a recorded one stands for. Lines that the
// recorded client did not write, or wrote later, wait for their turn.
func (p *Player) await(want jsontext.Value) bool {
	is := func(line jsontext.Value) bool { return p.proto.Key(line) == p.proto.Key(want) }
	i := slices.IndexFunc(p.early, is)
	for i < 0 {
		select {
		case line := <-p.lines:
			p.early = append(p.early, line)
			if is(line) {
				i = len(p.early) - 1
			}
		case <-p.over:
			return false
		}
	}
	line := p.early[i]
	p.early = slices.Delete(p.early, i, i+1)
	if old := at(want, p.proto.ID); old != nil {
		p.ids[string(old)] = at(line, p.proto.ID)
	}
	return true
}

// rewrite gives an answer the id of our request.
func (p *Player) rewrite(line jsontext.Value) jsontext.Value {
	if !p.proto.IsAnswer(line) {
		return line
	}
	old := at(line, p.proto.AnswerTo)
	if now := p.ids[string(old)]; now != nil {
		return put(line, p.proto.AnswerTo, now)
	}
	return line
}

// at returns the value at a path, or nil.
func at(v jsontext.Value, path []string) jsontext.Value {
	for _, name := range path {
		var members map[string]jsontext.Value
		if json.Unmarshal(v, &members) != nil {
			return nil
		}
		v = members[name]
	}
	return v
}

// put returns v with another value at a path.
func put(v jsontext.Value, path []string, value jsontext.Value) jsontext.Value {
	if len(path) == 0 {
		return value
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(v, &members) != nil {
		return v
	}
	members[path[0]] = put(members[path[0]], path[1:], value)
	changed, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return v
	}
	return changed
}
