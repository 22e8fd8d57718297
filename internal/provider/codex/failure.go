package codex

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// dataBytes is how much of an error's data goes into details.
const dataBytes = 4 << 10

// failure turns what went wrong with a request into an error with a code. A caller
// who left gets his context's error.
func (r *Runtime) failure(method string, err error) error {
	var answer *jsonrpc.Error
	var known *fault.Error
	switch {
	case errors.As(err, &answer):
		return r.refused(method, answer)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, jsonrpc.ErrTimeout):
		return r.fault(fault.ProviderTimeout, method, name+" did not answer in time.", err)
	case errors.Is(err, jsonrpc.ErrTooLong):
		return r.fault(fault.ProviderProtocolError, method, name+" answered with more than can be read.", err)
	case errors.As(err, &known): // the process, or the way to it, is gone
		return known.With("provider", "codex")
	case errors.Is(err, jsonrpc.ErrClosed):
		return r.fault(fault.ProviderRuntimeDisconnected, method, name+" went away.", err)
	}
	return r.fault(fault.ProviderProtocolError, method, name+" answered with something that makes no sense.", err)
}

// refused describes an error that the agent answered with.
func (r *Runtime) refused(method string, answer *jsonrpc.Error) *fault.Error {
	words := r.link.Redactor.String(answer.Message)
	var e *fault.Error
	switch c := classify(answer); {
	case c == authRequired:
		e = r.authRequired(method, answer)
	case c == unknownSession && method == "thread/resume": // else it may only have been put aside
		e = r.fault(fault.ProviderSessionLost, method, name+" no longer knows the conversation.", answer)
	case c == heldElsewhere:
		e = r.fault(fault.ProviderRequestFailed, method,
			"Another "+name+" process has this conversation open; close it there and try again.", answer)
	default:
		e = r.fault(fault.ProviderRequestFailed, method, name+" answered with an error: "+sentence(words), answer)
	}
	e = e.With("message", words).With("errorCode", answer.Code)
	return r.withData(e, "data", answer.Data)
}

// turnFailed describes the error with which a turn ended. The agent's message is
// kept; what it means is read from its structure.
func (r *Runtime) turnFailed(te *turnError) *fault.Error {
	if te == nil {
		return r.fault(fault.ProviderRequestFailed, "turn", name+" ended the turn without success and without a reason.", nil)
	}
	words := r.link.Redactor.String(te.Message)
	c := readCause(te.Info)
	var e *fault.Error
	if c.class() == authRequired {
		e = r.authRequired("turn", nil)
	} else {
		e = r.fault(fault.ProviderRequestFailed, "turn", name+" ended the turn with an error: "+sentence(words), nil)
	}
	e = e.With("message", words).With("retryable", c.retryable())
	if c.httpStatus != 0 {
		e = e.With("httpStatus", c.httpStatus)
	}
	e = r.withData(e, "codexErrorInfo", te.Info)
	return r.withData(e, "additionalDetails", te.Details)
}

// sentence ends words with one full stop.
func sentence(words string) string {
	words = strings.TrimRight(words, ". \n")
	if words == "" {
		words = "it gave no reason"
	}
	return words + "."
}

func (r *Runtime) withData(e *fault.Error, key string, data jsontext.Value) *fault.Error {
	if len(data) == 0 || data.Kind() == 'n' {
		return e
	}
	text := r.link.Redactor.String(string(data))
	if len(text) > dataBytes || !jsontext.Value(text).IsValid() {
		return e.With(key, strings.ToValidUTF8(text[:min(len(text), dataBytes)], ""))
	}
	return e.With(key, jsontext.Value(text))
}

func (r *Runtime) authRequired(method string, err error) *fault.Error {
	return r.fault(fault.ProviderAuthRequired, method,
		name+" needs a login; run `"+loginCommand+"` in a terminal and try again.", err).
		With("loginCommand", loginCommand)
}

func (r *Runtime) fault(code fault.Code, method, sentence string, err error) *fault.Error {
	return fault.Wrap(code, "codex."+method, err, sentence).
		With("provider", "codex").With("operation", method)
}
