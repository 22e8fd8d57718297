package provider

import "github.com/pedelec/pedelec-core/internal/thread"

// AnswerText writes the answer to a frontend tool call as a model reads it: the
// page's JSON value as it is, or {"error":{"code","message","details"}}. ok says
// which of the two it is.
func AnswerText(a thread.ToolAnswer) (text string, ok bool) {
	if a.Error == nil {
		if len(a.Result) == 0 {
			return "null", true
		}
		return string(a.Result), true
	}
	return string(thread.EncodeError(a.Error)), false
}
