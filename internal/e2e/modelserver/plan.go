package modelserver

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Prepared is what an agent says when the daemon prepares a thread.
const Prepared = "PEDELEC_PREPARED"

// Plan is what the model does with one request.
type Plan struct {
	Status   int           // HTTP status; 0 = 200
	Chunks   []string      // text, in the pieces in which it is streamed
	Every    time.Duration // pause before each chunk
	Hang     bool          // send the headers and then nothing
	CutAfter int           // break the connection after so many chunks; 0 = never
	Split    bool          // flush inside code points
	Tool     *ToolCall     // ask for a tool instead of answering with text
}

// ToolCall is a call that the model asks for.
type ToolCall struct {
	Name string
	Args jsontext.Value
}

// Sizes of the longer answers.
const (
	slowChunks = 600                    // with slowPace, a minute: longer than any test waits
	slowPace   = 100 * time.Millisecond // about the speed at which real models speak
	bigChunks  = 50
	bigChunk   = 4 << 10 // bytes
)

// marker finds what a text asks of the model: [[slow]], [[hang]], [[big]],
// [[unicode]], [[cut]], [[error 429]], [[tool NAME {"json":"args"}]].
var marker = regexp.MustCompile(`(?s)\[\[([a-z]+)(?: (.+?))?\]\]`)

// PlanFor returns what the model does with a request: what the marker in the last
// user text says, else a short answer that repeats the end of that text. A
// request that offers no tools is one that agents send on the side, such as for a
// title: it is answered at once.
func PlanFor(r Request) Plan {
	text := r.LastUserText()
	if len(r.Tools) == 0 {
		return Plan{Chunks: []string{"A title"}}
	}
	m := marker.FindStringSubmatch(text)
	if m == nil {
		if strings.Contains(text, Prepared) {
			return Plan{Chunks: []string{"PEDELEC_", "PREPARED"}}
		}
		return answer(text)
	}
	word, arg := m[1], m[2]
	switch word {
	case "slow":
		p := Plan{Every: slowPace}
		for i := range slowChunks {
			p.Chunks = append(p.Chunks, fmt.Sprintf("word%d ", i))
		}
		return p
	case "hang":
		return Plan{Hang: true}
	case "big":
		p := Plan{}
		for range bigChunks {
			p.Chunks = append(p.Chunks, strings.Repeat("b", bigChunk))
		}
		return p
	case "unicode":
		return Plan{Chunks: []string{"καλημέρα ", "🚲🚲", " größer"}, Split: true}
	case "cut":
		return Plan{Chunks: []string{"begun ", "and ", "never ended"}, CutAfter: 2}
	case "error":
		if status, err := strconv.Atoi(arg); err == nil {
			return Plan{Status: status}
		}
	case "tool":
		name, args, _ := strings.Cut(arg, " ")
		if r.ToolAnswered() {
			return Plan{Chunks: []string{"the tool ", "is done"}}
		}
		return Plan{Tool: &ToolCall{Name: name, Args: jsontext.Value(args)}}
	}
	return Plan{Status: 400}
}

// answer repeats the last line of a text.
func answer(text string) Plan {
	text = strings.TrimSpace(text)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return Plan{Chunks: []string{"You ", "said: ", text}}
}
