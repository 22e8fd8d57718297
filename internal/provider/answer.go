package provider

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/thread"
)

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
	var answer struct {
		Error struct {
			Code    string         `json:"code"`
			Message string         `json:"message"`
			Details map[string]any `json:"details,omitzero"`
		} `json:"error"`
	}
	answer.Error.Code = string(a.Error.Code)
	answer.Error.Message = a.Error.Message()
	answer.Error.Details = a.Error.Details
	body, err := json.Marshal(answer, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil { // details that cannot be written
		answer.Error.Details = nil
		body, _ = json.Marshal(answer, jsontext.AllowInvalidUTF8(true)) // strings always encode
	}
	return string(body), false
}
