package ipc

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// toolCallPayload is the payload of tool_call. Args may be any JSON here; that
// they are an object is a rule of tools.
type toolCallPayload struct {
	threadPayload
	ToolName *string        `json:"toolName"`
	Args     jsontext.Value `json:"args"`
}

func (p *toolCallPayload) check() error {
	switch {
	case p.ThreadID == nil:
		return missing("threadId")
	case p.ToolName == nil:
		return missing("toolName")
	case p.Args == nil:
		return missing("args")
	}
	return p.Args.Compact()
}

// callTool answers with the page's result as it is, not wrapped.
func callTool(ctx context.Context, c *call, p *toolCallPayload, dst []byte) ([]byte, error) {
	c.receipt = c.to.receipt()
	result, err := c.server.threads.CallTool(ctx, thread.ToolRequest{
		ThreadID: *p.ThreadID, Name: *p.ToolName, Args: p.Args, Delivery: c.receipt,
	})
	if err != nil {
		return nil, err
	}
	return append(dst, result...), nil
}

// toolSpecPayload is the payload of tool_spec.
type toolSpecPayload struct {
	threadPayload
	ToolName *string `json:"toolName"`
}

func (p *toolSpecPayload) check() error {
	switch {
	case p.ThreadID == nil:
		return missing("threadId")
	case p.ToolName == nil:
		return missing("toolName")
	}
	return nil
}

func toolSpec(ctx context.Context, c *call, p *toolSpecPayload, dst []byte) ([]byte, error) {
	t, err := c.server.threads.ToolSpec(ctx, *p.ThreadID, *p.ToolName)
	if err != nil {
		return nil, err
	}
	dst = append(dst, `{"name":`...)
	dst = appendString(dst, t.Name)
	dst = appendMember(dst, "description", t.Description)
	dst = appendRaw(dst, "argsSchema", t.ArgsSchema)
	dst = appendUint(dst, "timeoutMs", uint64(t.Timeout.Milliseconds()))
	return append(dst, '}'), nil
}

// resultPayload is the payload of submit_tool_result. A result that is missing,
// as that of a handler which returns nothing, is null.
type resultPayload struct {
	threadPayload
	RequestID *string        `json:"requestId"`
	Result    jsontext.Value `json:"result"`
}

func (p *resultPayload) check() error {
	switch {
	case p.ThreadID == nil:
		return missing("threadId")
	case p.RequestID == nil:
		return missing("requestId")
	}
	if p.Result == nil {
		p.Result = jsontext.Value("null")
	}
	return p.Result.Compact()
}

func submitToolResult(ctx context.Context, c *call, p *resultPayload, dst []byte) ([]byte, error) {
	if err := c.server.threads.SubmitToolResult(ctx, c.caller, *p.ThreadID, *p.RequestID, p.Result); err != nil {
		return nil, err
	}
	return append(dst, "{}"...), nil
}
