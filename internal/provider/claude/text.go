package claude

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// ordinary returns a user's text such that the agent takes it as text: one that
// begins with "/" would be a command of the agent.
func ordinary(text string) string {
	if strings.HasPrefix(text, "/") {
		return "\n" + text
	}
	return text
}

// answerText puts a model's answer together. Its blocks come whole, one by one,
// but count only when the answer is complete: the agent may ask the model again,
// and then what it had so far is void.
type answerText struct {
	streaming string   // id of the answer that comes in; "" = none does
	blocks    []string // of it, whole ones
	held      int      // their bytes
}

// maxHeld is how much text waits for the end of its answer, in bytes. An answer
// that is longer than any model's counts as it comes.
const maxHeld = 4 << 20

// begin hears that an answer begins. One that was not complete is void.
func (a *answerText) begin(id string) { *a = answerText{streaming: id} }

// add takes a whole block. It returns what counts at once: the block of an answer
// that was not streamed, and all that is too much to be held.
func (a *answerText) add(id, text string) (complete []string) {
	if a.streaming == "" || a.streaming != id {
		return []string{text}
	}
	a.blocks = append(a.blocks, text)
	if a.held += len(text); a.held <= maxHeld {
		return nil
	}
	complete, a.blocks, a.held = a.blocks, nil, 0
	return complete
}

// end returns the blocks of the answer, which is complete.
func (a *answerText) end() []string {
	whole := a.blocks
	*a = answerText{}
	return whole
}

// words returns the text of an assistant message.
func (m assistantMessage) words() string {
	var b strings.Builder
	for _, block := range m.Content {
		if block.Type == "text" {
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

// word returns a JSON string, or "" for anything else.
func word(v jsontext.Value) string { return jsonrpc.Text(v) }
