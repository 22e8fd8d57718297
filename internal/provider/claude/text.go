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
}

// begin hears that an answer begins. One that was not complete is void.
func (a *answerText) begin(id string) { *a = answerText{streaming: id} }

// add takes a whole block. It returns the block if it is of an answer that was not
// streamed, which counts at once.
func (a *answerText) add(id, text string) (complete string) {
	if a.streaming == "" || a.streaming != id {
		return text
	}
	a.blocks = append(a.blocks, text)
	return ""
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
