package acp

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
	name := r.flavour.Provider.Name()
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
		return known.With("provider", r.flavour.Provider.String())
	case errors.Is(err, jsonrpc.ErrClosed):
		return r.fault(fault.ProviderRuntimeDisconnected, method, name+" went away.", err)
	}
	return r.fault(fault.ProviderProtocolError, method, name+" answered with something that makes no sense.", err)
}

// refused describes an error that the agent answered with.
func (r *Runtime) refused(method string, answer *jsonrpc.Error) *fault.Error {
	name := r.flavour.Provider.Name()
	switch classify(method, answer) {
	case authRequired:
		return r.withAnswer(r.authRequired(method, answer), answer)
	case unknownSession:
		return r.withAnswer(r.fault(fault.ProviderSessionLost, method, name+" no longer knows the conversation.", answer), answer)
	}
	words := r.link.Redactor.String(answer.Message)
	return r.withAnswer(r.fault(fault.ProviderRequestFailed, method, name+" answered with an error: "+strings.TrimRight(words, ". \n")+".", answer), answer)
}

func (r *Runtime) withAnswer(e *fault.Error, answer *jsonrpc.Error) *fault.Error {
	e = e.With("message", r.link.Redactor.String(answer.Message)).With("errorCode", answer.Code)
	if len(answer.Data) == 0 {
		return e
	}
	data := r.link.Redactor.String(string(answer.Data))
	if len(data) > dataBytes || !jsontext.Value(data).IsValid() {
		return e.With("data", data[:min(len(data), dataBytes)])
	}
	return e.With("data", jsontext.Value(data))
}

func (r *Runtime) authRequired(method string, err error) *fault.Error {
	return r.fault(fault.ProviderAuthRequired, method,
		r.flavour.Provider.Name()+" needs a login; run `"+r.flavour.LoginCommand+"` in a terminal and try again.", err).
		With("loginCommand", r.flavour.LoginCommand)
}

func (r *Runtime) fault(code fault.Code, method, sentence string, err error) *fault.Error {
	return fault.Wrap(code, "acp."+method, err, sentence).
		With("provider", r.flavour.Provider.String()).With("operation", method)
}
