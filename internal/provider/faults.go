package provider

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// dataBytes is how much of what an agent says of an error goes into details.
const dataBytes = 4 << 10

// Faults makes the errors of one provider.
type Faults struct {
	Provider     thread.Provider
	Protocol     string // begins the operation in logs
	LoginCommand string // what a person runs who is not logged in
	Redactor     *fault.Redactor
}

// New returns an error with a code.
func (f Faults) New(code fault.Code, operation, sentence string, err error) *fault.Error {
	return fault.Wrap(code, f.Protocol+"."+operation, err, sentence).
		With("provider", f.Provider.String()).With("operation", operation)
}

// AuthRequired says how a person logs in.
func (f Faults) AuthRequired(operation string, err error) *fault.Error {
	return f.New(fault.ProviderAuthRequired, operation,
		f.Provider.Name()+" needs a login; run `"+f.LoginCommand+"` in a terminal and try again.", err).
		With("loginCommand", f.LoginCommand)
}

// Failed says that the agent answered with an error, in its own words.
func (f Faults) Failed(operation, begin, words string, err error) *fault.Error {
	return f.New(fault.ProviderRequestFailed, operation, f.Provider.Name()+" "+begin+": "+EndWords(words), err)
}

// EndWords ends an agent's words with one full stop.
func EndWords(words string) string {
	if words = strings.TrimRight(words, ". \n"); words == "" {
		words = "it gave no reason"
	}
	return words + "."
}

// OfRequest turns what went wrong with a request into an error with a code. A caller
// who left gets his context's error. refused describes what the agent answered.
func (f Faults) OfRequest(operation string, err error, refused func(*jsonrpc.Error) *fault.Error) error {
	var answer *jsonrpc.Error
	var known *fault.Error
	name := f.Provider.Name()
	switch {
	case errors.As(err, &answer):
		return f.withAnswer(refused(answer), answer)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, jsonrpc.ErrTimeout):
		return f.New(fault.ProviderTimeout, operation, name+" did not answer in time.", err)
	case errors.Is(err, jsonrpc.ErrTooLong):
		return f.New(fault.ProviderProtocolError, operation, name+" answered with more than can be read.", err)
	case errors.As(err, &known): // the process, or the way to it, is gone
		return known.With("provider", f.Provider.String())
	case errors.Is(err, jsonrpc.ErrClosed):
		return f.New(fault.ProviderRuntimeDisconnected, operation, name+" went away.", err)
	}
	return f.New(fault.ProviderProtocolError, operation, name+" answered with something that makes no sense.", err)
}

// withAnswer adds what the agent answered.
func (f Faults) withAnswer(e *fault.Error, answer *jsonrpc.Error) *fault.Error {
	e = e.With("message", f.Redactor.String(answer.Message)).With("errorCode", answer.Code)
	return f.WithData(e, "data", answer.Data)
}

// WithData adds what an agent says of an error, as JSON if it is not too much.
func (f Faults) WithData(e *fault.Error, key string, data jsontext.Value) *fault.Error {
	if len(data) == 0 || data.Kind() == 'n' {
		return e
	}
	text := f.Redactor.String(string(data))
	if len(text) > dataBytes || !jsontext.Value(text).IsValid() {
		return e.With(key, strings.ToValidUTF8(text[:min(len(text), dataBytes)], ""))
	}
	return e.With(key, jsontext.Value(text))
}
