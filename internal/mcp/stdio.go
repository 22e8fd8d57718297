package mcp

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pedelec/pedelec-core/internal/tool"
)

// Daemon is the daemon as its clients reach it.
type Daemon interface {
	// Call sends a request of the wire protocol and decodes its result.
	Call(ctx context.Context, typ string, payload, result any) error
}

// Stdio serves a thread's tools on standard streams, for an agent that starts its
// servers itself.
type Stdio struct {
	Daemon   Daemon
	ThreadID string
	Tools    []string      // names of the tools that are offered
	Progress time.Duration // between two signs of life; 0 = that of DefaultDurations
}

// toolRequest is the payload of tool_spec and tool_call.
type toolRequest struct {
	ThreadID string         `json:"threadId"`
	ToolName string         `json:"toolName"`
	Args     jsontext.Value `json:"args,omitzero"`
}

// toolSpec is the result of tool_spec.
type toolSpec struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	ArgsSchema  jsontext.Value `json:"argsSchema"`
}

// Serve forwards calls to the daemon until the input ends or ctx does. Error: that of
// the tool that the daemon cannot describe.
func (s Stdio) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	if s.Progress == 0 {
		s.Progress = DefaultDurations.Progress
	}
	var skills tool.Skills
	for _, name := range s.Tools {
		var spec toolSpec
		if err := s.Daemon.Call(ctx, "tool_spec", toolRequest{ThreadID: s.ThreadID, ToolName: name}, &spec); err != nil {
			return err
		}
		skills.Tools = append(skills.Tools, tool.Tool{Name: spec.Name, Description: spec.Description, ArgsSchema: spec.ArgsSchema})
	}
	transport := &sdk.IOTransport{Reader: io.NopCloser(in), Writer: keptOpen{out}}
	err := newServer(skills, s.call).Run(ctx, transport)
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

// call forwards a call. The wire protocol has no ids for calls, so equal ones that
// are made at the same time share their answer.
func (s Stdio) call(ctx context.Context, req *sdk.CallToolRequest, name string) (jsontext.Value, error) {
	defer signsOfLife(ctx, req, s.Progress)()
	var result jsontext.Value
	err := s.Daemon.Call(ctx, "tool_call", toolRequest{s.ThreadID, name, arguments(req)}, &result)
	return result, err
}

// keptOpen is an output that is not ours to close.
type keptOpen struct{ io.Writer }

// Close does nothing.
func (keptOpen) Close() error { return nil }
