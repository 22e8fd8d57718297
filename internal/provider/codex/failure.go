package codex

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
	switch c := classify(answer); {
	case c == authRequired:
		return r.Faults.AuthRequired(method, answer)
	case c == unknownSession && method == "thread/resume": // else it may only have been put aside
		return r.fault(fault.ProviderSessionLost, method, name+" no longer knows the conversation.", answer)
	case c == heldElsewhere:
		return r.fault(fault.ProviderRequestFailed, method,
			"Another "+name+" process has this conversation open; close it there and try again.", answer)
	}
	return r.Faults.Failed(method, "answered with an error", r.link.Redactor.String(answer.Message), answer)
}

// turnFailed describes the error with which a turn ended. The agent's message is
// kept; what it means is read from its structure.
func (r *Runtime) turnFailed(te *turnError) *fault.Error {
	if te == nil {
		return r.fault(fault.ProviderRequestFailed, "turn", name+" ended the turn without success and without a reason.", nil)
	}
	f, words, c := r.Faults, r.link.Redactor.String(te.Message), readCause(te.Info)
	e := f.Failed("turn", "ended the turn with an error", words, nil)
	if c.class() == authRequired {
		e = f.AuthRequired("turn", nil)
	}
	e = e.With("message", words).With("retryable", c.retryable())
	if c.httpStatus != 0 {
		e = e.With("httpStatus", c.httpStatus)
	}
	e = f.WithData(e, "codexErrorInfo", te.Info)
	return f.WithData(e, "additionalDetails", te.Details)
}

func (r *Runtime) fault(code fault.Code, method, sentence string, err error) *fault.Error {
	return r.Faults.New(code, method, sentence, err)
}
