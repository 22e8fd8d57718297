package acp

import (
	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// failure turns what went wrong with a request into an error with a code. A caller
// who left gets his context's error.
func (r *Runtime) failure(method string, err error) error {
	return r.Faults.OfRequest(method, err, func(answer *jsonrpc.Error) *fault.Error { return r.refused(method, answer) })
}

// refused describes an error that the agent answered with.
func (r *Runtime) refused(method string, answer *jsonrpc.Error) *fault.Error {
	switch classify(method, answer) {
	case authRequired:
		return r.authRequired(method, answer)
	case unknownSession:
		return r.fault(fault.ProviderSessionLost, method, r.flavour.Provider.Name()+" no longer knows the conversation.", answer)
	}
	return r.Faults.Failed(method, "answered with an error", r.link.Redactor.String(answer.Message), answer)
}

func (r *Runtime) authRequired(method string, err error) *fault.Error {
	return r.Faults.AuthRequired(method, err)
}

func (r *Runtime) fault(code fault.Code, method, sentence string, err error) *fault.Error {
	return r.Faults.New(code, method, sentence, err)
}
