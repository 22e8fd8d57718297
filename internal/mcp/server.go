package mcp

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// ServerName is what the server calls itself, and the name under which agents are
// told of it: they put it in front of the names of the tools.
const ServerName = "pedelec"

const serverVersion = "1"

// callTool carries out a call of the tool that has this name in the manifest.
type callTool func(ctx context.Context, req *sdk.CallToolRequest, name string) (jsontext.Value, error)

// newServer returns a server of these tools. List and call are answered here and
// not by the SDK's registry, which takes one draft of JSON Schema only.
func newServer(skills tool.Skills, call callTool) *sdk.Server {
	names := tool.ModelNames(skills.Tools)
	list := &sdk.ListToolsResult{Tools: describe(skills.Tools, names)}
	server := sdk.NewServer(&sdk.Implementation{Name: ServerName, Title: "Pedelec", Version: serverVersion}, &sdk.ServerOptions{
		Capabilities:              &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		SupportedProtocolVersions: versionsWithSessions(),
	})
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			switch r := req.(type) {
			case *sdk.ListToolsRequest:
				return list, nil
			case *sdk.CallToolRequest:
				name, ok := names.Tool[r.Params.Name]
				if !ok {
					return failed(fault.New(fault.ToolNotFound, "The application has no tool of this name.")), nil
				}
				value, err := call(ctx, r, name)
				if err != nil && ctx.Err() != nil {
					return nil, ctx.Err() // nobody waits for it
				}
				if err != nil {
					return failed(fault.From(err)), nil
				}
				return succeeded(value), nil
			}
			return next(ctx, method, req)
		}
	})
	return server
}

// versionsWithSessions leaves out the protocol's versions that know no sessions: a
// call could not be cancelled there.
func versionsWithSessions() []string {
	const firstWithout = "2026-07-28"
	return slices.DeleteFunc(sdk.SupportedProtocolVersions(), func(v string) bool { return v >= firstWithout })
}

// describe returns the tools as models see them, sorted by name.
func describe(tools []tool.Tool, names tool.Names) []*sdk.Tool {
	list := make([]*sdk.Tool, 0, len(tools))
	for _, t := range tools {
		d := &sdk.Tool{Name: names.Model[t.Name], Description: t.Description, InputSchema: rawJSON(tool.ObjectSchema(t.ArgsSchema))}
		if d.Name != t.Name {
			d.Title = t.Name // by which the application's guidance speaks of it
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *sdk.Tool) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// rawJSON is JSON for the SDK, which writes with the standard library.
type rawJSON []byte

// MarshalJSON returns the text as it is.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// arguments returns the arguments of a call; a client may leave out those of a tool
// without any.
func arguments(req *sdk.CallToolRequest) jsontext.Value {
	if len(req.Params.Arguments) == 0 || string(req.Params.Arguments) == "null" {
		return jsontext.Value("{}")
	}
	return jsontext.Value(req.Params.Arguments)
}

// succeeded returns the page's answer as text, and beside it as structure if it is
// an object, which is all that the protocol takes there.
func succeeded(value jsontext.Value) *sdk.CallToolResult {
	result := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(value)}}}
	if value.Kind() == '{' {
		result.StructuredContent = rawJSON(value)
	}
	return result
}

// failed returns a failure as a result, so that the model learns of it and can do
// better.
func failed(e *fault.Error) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(thread.EncodeError(e))}}}
}

// signsOfLife tells the client from time to time that its call still waits, if it
// wants to know, until stop is called.
func signsOfLife(ctx context.Context, req *sdk.CallToolRequest, every time.Duration) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		begun, ticks := time.Now(), time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			sign := &sdk.ProgressNotificationParams{ProgressToken: token, Progress: time.Since(begun).Seconds(), Message: "The application has not answered yet."}
			if req.Session.NotifyProgress(ctx, sign) != nil {
				return // the client is gone, or the call over
			}
		}
	})
	return func() { cancel(); telling.Wait() }
}
