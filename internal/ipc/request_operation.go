package ipc

import (
	"context"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// operationPayload is the payload of prepare_thread and cancel_operation.
type operationPayload struct {
	threadPayload
	OperationID *string `json:"operationId"`
}

func prepareThread(ctx context.Context, c *call, p *operationPayload, dst []byte) ([]byte, error) {
	a, err := c.server.threads.Prepare(ctx, c.caller, *p.ThreadID, p.OperationID)
	if err != nil {
		return nil, asBusy(err, *p.ThreadID)
	}
	dst = append(dst, `{"threadId":`...)
	dst = appendString(dst, *p.ThreadID)
	dst = appendMember(dst, "operationId", a.OperationID)
	dst = appendTrue(dst, "prepared")
	dst = appendBool(dst, "alreadyPrepared", a.AlreadyPrepared)
	if a.Replayed {
		dst = appendTrue(dst, "replayed")
	}
	return append(dst, '}'), nil
}

// sendPayload is the payload of send_text. The message may be empty and is not
// trimmed.
type sendPayload struct {
	threadPayload
	Message     *string `json:"message"`
	OperationID *string `json:"operationId"`
}

func (p *sendPayload) check() error {
	switch {
	case p.ThreadID == nil:
		return missing("threadId")
	case p.Message == nil:
		return missing("message")
	}
	return nil
}

func sendText(ctx context.Context, c *call, p *sendPayload, dst []byte) ([]byte, error) {
	a, err := c.server.threads.SendText(ctx, c.caller, *p.ThreadID, *p.Message, p.OperationID)
	if err != nil {
		return nil, asBusy(err, *p.ThreadID)
	}
	dst = append(dst, `{"threadId":`...)
	dst = appendString(dst, *p.ThreadID)
	dst = appendMember(dst, "operationId", a.OperationID)
	if a.Replayed {
		dst = appendTrue(dst, "replayed")
	}
	return append(dst, '}'), nil
}

func cancelOperation(ctx context.Context, c *call, p *operationPayload, dst []byte) ([]byte, error) {
	r, err := c.server.threads.Cancel(ctx, c.caller, *p.ThreadID, p.OperationID)
	if err != nil {
		return nil, err
	}
	dst = append(dst, `{"threadId":`...)
	dst = appendString(dst, *p.ThreadID)
	if r.OperationID != "" {
		dst = appendMember(dst, "operationId", r.OperationID)
	}
	dst = appendBool(dst, "cancelled", r.Cancelled)
	return append(dst, '}'), nil
}

// asBusy turns a passing refusal of an operation into the code that old clients
// take as "not admitted, try again": any other one breaks their session. The
// reason tells newer clients.
func asBusy(err error, threadID string) error {
	e := fault.From(err)
	switch e.Code {
	case fault.StorageFull, fault.StorageFailed, fault.Overloaded, fault.CoreRuntimeUnavailable:
		busy := fault.Wrap(fault.ThreadBusy, e.Op, err, e.Message())
		return busy.With("threadId", threadID).With("reason", string(e.Code))
	}
	return err
}
