package claude

import (
	"strconv"
	"strings"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// httpUnauthorized is the status of a model's server that wants other credentials.
const httpUnauthorized = 401

// failed describes a result that is no success. assistantError is the word with
// which the agent marked what it said instead of an answer.
func (r *Runtime) failed(l *line, assistantError string) *fault.Error {
	words := r.link.Redactor.String(word(l.Result))
	if words == "" {
		words = r.link.Redactor.String(strings.Join(l.complaints(), "; "))
	}
	status, _ := strconv.Atoi(string(l.APIErrorStatus))
	e := faults.Failed("turn", "ended the turn with an error", words, nil)
	if status == httpUnauthorized || assistantError == "authentication_failed" || word(l.APIErrorType) == "authentication_error" {
		e = faults.AuthRequired("turn", nil)
	}
	e = e.With("message", words).With("subtype", l.Subtype).With("retryable", status == 429 || status >= 500)
	if status != 0 {
		e = e.With("httpStatus", status)
	}
	if reason := word(l.TerminalReason); reason != "" {
		e = e.With("terminalReason", reason)
	}
	if assistantError != "" {
		e = e.With("errorKind", assistantError)
	}
	return e
}

// unknownSession reports whether a result says that the agent does not have the
// conversation that it was to resume.
func unknownSession(l *line) bool {
	return l.Subtype == "error_during_execution" && strings.Contains(strings.Join(l.complaints(), "\n"), "No conversation found with session ID")
}

func failure(code fault.Code, operation, sentence string, err error) *fault.Error {
	return faults.New(code, operation, sentence, err)
}

var faults = provider.Faults{Provider: thread.Claude, Protocol: "claude", LoginCommand: loginCommand}
