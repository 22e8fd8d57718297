package claude

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// What the agent reads as the answer to a tool call that cannot be answered any
// more, or at all.
const (
	cancelledText = `{"error":{"code":"OPERATION_CANCELLED","message":"The turn was cancelled."}}`
	overText      = `{"error":{"code":"TOOL_CANCELLED","message":"The turn is over."}}`
	unknownText   = `{"error":{"code":"TOOL_NOT_FOUND","message":"There is no tool of this name."}}`
)

// What the agent reads when it may not do something.
const (
	deniedText = "The user's settings do not allow this. Work inside the workspace with the tools for files, or do without it."
	nobodyText = "Nobody can be asked in this session; decide yourself."
)

// pending is a request of the agent that waits for an answer.
type pending struct {
	callID string         // of a frontend tool; "" = it is a question for permission
	rpcID  jsontext.Value // of the call inside the request
}

// asked takes a request of the agent. It is called on the reader.
func (r *Runtime) asked(id string, request jsontext.Value) {
	var q question
	if err := jsonrpc.Unmarshal(request, &q); err != nil || id == "" {
		r.refuse(id, "The request cannot be read")
		return
	}
	switch q.Subtype {
	case "can_use_tool":
		r.judge(id, q)
	case "mcp_message":
		r.mcp(id, q)
	default:
		r.link.Log.Debug().Str("subtype", q.Subtype).Msg("the agent asks for something that is not offered")
		r.refuse(id, "Unsupported request")
	}
}

// judge has a question for permission answered by the policy. One of which the
// turn is over or being cancelled is denied.
func (r *Runtime) judge(id string, q question) {
	r.mu.Lock()
	s := r.session
	if s == nil || s.turn == nil || s.turn.cancelled || s.quarantine != nil {
		r.mu.Unlock()
		r.answer(id, permissionAnswer{Behavior: "deny", Message: "The turn is over."})
		return
	}
	t := s.turn
	t.open[id] = pending{}
	r.mu.Unlock()
	s.out.Frame(thread.Frame{Kind: thread.FrameActivity, Turn: t.id})
	r.spawn(func() {
		verdict := s.verdict(q)
		r.mu.Lock()
		_, open := t.open[id]
		delete(t.open, id)
		r.mu.Unlock()
		if open {
			r.link.Log.Debug().Str("tool", q.ToolName).Str("behavior", verdict.Behavior).Msg("permission question answered")
			r.answer(id, verdict)
		}
	})
}

// verdict decides on one question.
func (s *session) verdict(q question) permissionAnswer {
	input := q.Input
	if input.Kind() != '{' {
		input = jsontext.Value(`{}`)
	}
	allow := permissionAnswer{Behavior: "allow", UpdatedInput: input}
	switch {
	case strings.HasPrefix(q.ToolName, "mcp__"+serverName+"__"): // the page's own tools
		return allow
	case q.ToolName == "AskUserQuestion":
		return permissionAnswer{Behavior: "deny", Message: nobodyText}
	case s.policy.Allows(s.wish(q.ToolName, input)):
		return allow
	}
	return permissionAnswer{Behavior: "deny", Message: deniedText}
}

// wish reads what a tool wants to do.
func (s *session) wish(tool string, input jsontext.Value) provider.Question {
	q := provider.Question{Shell: tool == "Bash"}
	switch tool {
	case "Read", "Glob", "Grep", "LS", "NotebookRead":
		q.Reads = true
	}
	q.Collect(input)
	if len(q.Paths) == 0 && (tool == "Glob" || tool == "Grep" || tool == "LS") {
		q.Paths = []string{s.policy.Workspace} // where they look when they are told nothing
	}
	if tool == "Glob" {
		q.CollectPattern(input)
	}
	return q
}

// mcp serves the frontend tools as the Model Context Protocol has it.
func (r *Runtime) mcp(id string, q question) {
	m, err := jsonrpc.Decode(q.Message)
	if err != nil || m.Kind == jsonrpc.Response || q.ServerName != serverName {
		r.refuse(id, "The message cannot be read")
		return
	}
	if m.Kind == jsonrpc.Notification {
		r.answer(id, mcpAnswer{mcpResponse{Version: "2.0", Result: struct{}{}}})
		return
	}
	rpcID := m.ID.Clone()
	switch m.Method {
	case "initialize":
		var p struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = jsonrpc.Unmarshal(m.Params, &p) // an empty version is none that it takes
		r.result(id, rpcID, mcpInitialize{ProtocolVersion: p.ProtocolVersion, ServerInfo: mcpServerTag{Name: serverName, Version: "1"}})
	case "ping":
		r.result(id, rpcID, struct{}{})
	case "tools/list":
		r.result(id, rpcID, r.toolList())
	case "tools/call":
		r.called(id, rpcID, m.Params)
	default:
		r.answer(id, mcpAnswer{mcpResponse{Version: "2.0", ID: rpcID, Error: &mcpError{jsonrpc.CodeMethodNotFound, "Method not found"}}})
	}
}

func (r *Runtime) toolList() mcpToolList {
	list := mcpToolList{Tools: []mcpTool{}}
	if skills := r.launch.Spec.Skills; skills != nil {
		for _, t := range skills.Tools {
			list.Tools = append(list.Tools, mcpTool{r.tools.Model[t.Name], t.Description, thread.ObjectSchema(t.ArgsSchema)})
		}
	}
	return list
}

// called hands a call of a frontend tool to the thread.
func (r *Runtime) called(id string, rpcID, params jsontext.Value) {
	var p struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
		Meta      struct {
			ToolUseID string `json:"claudecode/toolUseId"`
		} `json:"_meta"`
	}
	if err := jsonrpc.Unmarshal(params, &p); err != nil {
		r.answer(id, mcpAnswer{mcpResponse{Version: "2.0", ID: rpcID, Error: &mcpError{jsonrpc.CodeInvalidParams, "The call cannot be read"}}})
		return
	}
	tool, offered := r.tools.Tool[p.Name]
	if !offered {
		r.toolResult(id, rpcID, unknownText, false)
		return
	}
	call := thread.ToolCall{CallID: p.Meta.ToolUseID, Name: tool, Args: p.Arguments}
	if call.CallID == "" {
		call.CallID = id
	}
	if call.Args == nil {
		call.Args = jsontext.Value(`{}`)
	}
	r.mu.Lock()
	s := r.session
	if s == nil || s.turn == nil || s.turn.cancelled || s.quarantine != nil {
		r.mu.Unlock()
		r.toolResult(id, rpcID, overText, false)
		return
	}
	t := s.turn
	t.open[id] = pending{callID: call.CallID, rpcID: rpcID}
	r.mu.Unlock()
	s.out.Frame(thread.Frame{Kind: thread.FrameToolCall, Turn: t.id, Call: call})
}

// AnswerTool answers a call. One that nobody waits for any more is no error.
func (s *session) AnswerTool(ctx context.Context, callID string, a thread.ToolAnswer) error {
	s.r.mu.Lock()
	waiting := map[string]pending{}
	if s.turn != nil {
		for id, p := range s.turn.open {
			if p.callID == callID && callID != "" {
				waiting[id] = p
				delete(s.turn.open, id)
			}
		}
	}
	s.r.mu.Unlock()
	text, ok := provider.AnswerText(a)
	for id, p := range waiting {
		line := answerLine{"control_response", answer{Subtype: "success", RequestID: id, Response: mcpToolAnswer(p.rpcID, text, ok)}}
		if err := s.r.write(ctx, line); err != nil {
			return failure(fault.ProviderRuntimeDisconnected, "tool", name+" takes no answer to its tool call.", err)
		}
	}
	return nil
}

func mcpToolAnswer(rpcID jsontext.Value, text string, ok bool) mcpAnswer {
	return mcpAnswer{mcpResponse{Version: "2.0", ID: rpcID, Result: mcpToolResult{Content: []mcpContent{{"text", text}}, IsError: !ok}}}
}

// withdrawn hears that the agent does not wait for an answer any more.
func (r *Runtime) withdrawn(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session != nil && r.session.turn != nil {
		delete(r.session.turn.open, id)
	}
}

// takeOpen returns the requests that wait for an answer, and lets none wait. The
// mutex is held.
func (t *turn) takeOpen() map[string]pending {
	open := t.open
	t.open = map[string]pending{}
	return open
}

// dismiss answers requests whose turn is over or cancelled.
func (r *Runtime) dismiss(open map[string]pending, text string) {
	for id, p := range open {
		if p.callID == "" {
			r.answer(id, permissionAnswer{Behavior: "deny", Message: "The turn is over."})
			continue
		}
		r.toolResult(id, p.rpcID, text, false)
	}
}

func (r *Runtime) toolResult(id string, rpcID jsontext.Value, text string, ok bool) {
	r.answer(id, mcpToolAnswer(rpcID, text, ok))
}

func (r *Runtime) result(id string, rpcID jsontext.Value, result any) {
	r.answer(id, mcpAnswer{mcpResponse{Version: "2.0", ID: rpcID, Result: result}})
}

func (r *Runtime) answer(id string, response any) {
	r.post(answerLine{"control_response", answer{Subtype: "success", RequestID: id, Response: response}})
}

func (r *Runtime) refuse(id, why string) {
	r.post(answerLine{"control_response", answer{Subtype: "error", RequestID: id, Error: why}})
}
