package codex

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// class is what a refused request means to us, beyond having failed. The agent
// answers every fault with one code, so its words are matched, here and nowhere
// else; testdata/refusals.jsonl holds what it was seen to say.
type class uint8

const (
	plainFailure   class = iota
	authRequired         // nobody is logged in
	unknownSession       // it has no such conversation
	heldElsewhere        // another process has the conversation open
	shelved              // the conversation lies in the archive
)

// classify reads the agent's error to a request.
func classify(e *jsonrpc.Error) class {
	text := strings.ToLower(e.Message)
	switch {
	case strings.Contains(text, "already has an active writer"):
		return heldElsewhere
	case strings.Contains(text, "is archived"):
		return shelved
	case strings.Contains(text, "no rollout found"),
		strings.Contains(text, "thread not found"),
		strings.Contains(text, "invalid session id"),
		strings.Contains(text, "invalid thread id"):
		return unknownSession
	case strings.Contains(text, "not logged in"), strings.Contains(text, "login required"):
		return authRequired
	}
	return plainFailure
}

// cause is what the structure of a turn's error says.
type cause struct {
	kind       string // the agent's word, such as usageLimitExceeded
	httpStatus int    // of the model's server; 0 = unknown
}

// readCause reads the codexErrorInfo of a turn's error. The set of words grows.
func readCause(info jsontext.Value) cause {
	switch info.Kind() {
	case '"':
		return cause{kind: jsonrpc.Text(info)}
	case '{':
		var members map[string]jsontext.Value
		if jsonrpc.Unmarshal(info, &members) != nil {
			return cause{}
		}
		for kind, value := range members {
			var detail struct {
				HTTPStatus jsontext.Value `json:"httpStatusCode"`
			}
			if value.Kind() == '{' && jsonrpc.Unmarshal(value, &detail) != nil {
				return cause{kind: kind}
			}
			status, _ := strconv.Atoi(string(detail.HTTPStatus))
			return cause{kind: kind, httpStatus: status}
		}
	}
	return cause{}
}

// httpUnauthorized is the status of a model's server that wants other credentials.
const httpUnauthorized = 401

func (c cause) class() class {
	if c.kind == "unauthorized" || c.httpStatus == httpUnauthorized {
		return authRequired
	}
	return plainFailure
}

// retryable reports whether the same turn may well succeed later.
func (c cause) retryable() bool {
	switch c.kind {
	case "serverOverloaded", "rateLimitExceeded", "internalServerError", "flexUnavailable",
		"httpConnectionFailed", "responseStreamConnectionFailed", "responseStreamDisconnected", "responseTooManyFailedAttempts":
		return c.httpStatus == 0 || c.httpStatus == 429 || c.httpStatus >= 500
	}
	return false
}
