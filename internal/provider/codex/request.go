package codex

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// What an agent reads as the answer to a tool call that cannot be answered any
// more, or at all.
const (
	cancelledText = `{"error":{"code":"OPERATION_CANCELLED","message":"The turn was cancelled."}}`
	overText      = `{"error":{"code":"TOOL_CANCELLED","message":"The turn is over."}}`
	unknownText   = `{"error":{"code":"TOOL_NOT_FOUND","message":"There is no tool of this name."}}`
)

// refusals answer the agent's questions for permission or for a person's words.
// With the approval policy "never" it asks none of them; should it, the answer is
// no, since nobody is there to say yes.
var refusals = map[string]any{
	"item/commandExecution/requestApproval": decisionResult{"decline"},
	"item/fileChange/requestApproval":       decisionResult{"decline"},
	"item/permissions/requestApproval":      permissionsResult{},
	"item/tool/requestUserInput":            answersResult{Answers: map[string]any{}},
	"mcpServer/elicitation/request":         actionResult{"cancel"},
	"applyPatchApproval":                    decisionResult{"denied"},
	"execCommandApproval":                   decisionResult{"denied"},
}

// permissionsResult grants nothing.
type permissionsResult struct {
	Permissions struct{} `json:"permissions"`
}

type answersResult struct {
	Answers map[string]any `json:"answers"`
}

type actionResult struct {
	Action string `json:"action"`
}

// Request answers what the agent asks. It is called on the reader.
func (r *Runtime) Request(id jsonrpc.ID, method string, params jsontext.Value) {
	if method == "item/tool/call" {
		r.called(id, params)
		return
	}
	answer, known := refusals[method]
	if known {
		r.link.Log.Debug().Str("method", method).Msg("the agent asks what nobody can answer; it is refused")
		r.reply(id, answer)
		return
	}
	r.link.Log.Debug().Str("method", method).Msg("the agent asks for something that is not offered")
	r.refuse(id, jsonrpc.CodeMethodNotFound, "Method not found")
}

// called hands a call of a frontend tool to the thread whose turn it is.
func (r *Runtime) called(id jsonrpc.ID, params jsontext.Value) {
	var p toolCallParams
	if err := jsonrpc.Unmarshal(params, &p); err != nil || p.CallID == "" {
		r.refuse(id, jsonrpc.CodeInvalidParams, "The call cannot be read")
		return
	}
	r.Mu.Lock()
	s := r.Taken[p.ThreadID]
	if s == nil || s.Muted() {
		r.Mu.Unlock()
		r.answerCalls([]jsonrpc.ID{id}, overText)
		return
	}
	t := s.owner(notice{TurnID: p.TurnID})
	if t == nil || t.cancelled {
		r.Mu.Unlock()
		r.answerCalls([]jsonrpc.ID{id}, overText)
		return
	}
	tool, offered := s.tools.Tool[p.Tool]
	if offered {
		t.calls[p.CallID] = append(t.calls[p.CallID], id)
	}
	r.Mu.Unlock()
	if !offered {
		r.answerCalls([]jsonrpc.ID{id}, unknownText)
		return
	}
	s.Out.Frame(thread.Frame{Kind: thread.FrameToolCall, Turn: t.id, Call: thread.ToolCall{CallID: p.CallID, Name: tool, Args: p.Arguments.Clone()}})
}

// AnswerTool answers a call. One that nobody waits for any more is no error.
func (s *session) AnswerTool(_ context.Context, callID string, answer thread.ToolAnswer) error {
	s.r.Mu.Lock()
	var waiting []jsonrpc.ID
	if s.turn != nil {
		waiting = s.turn.calls[callID]
		delete(s.turn.calls, callID)
	}
	s.r.Mu.Unlock()
	text, ok := provider.AnswerText(answer)
	for _, id := range waiting {
		if err := s.r.conn.Reply(id, toolResult(text, ok)); err != nil {
			return s.r.fault(fault.ProviderRuntimeDisconnected, "item/tool/call", name+" takes no answer to its tool call.", err)
		}
	}
	return nil
}

func toolResult(text string, success bool) toolCallResult {
	return toolCallResult{ContentItems: []contentItem{{"inputText", text}}, Success: success}
}

// takeCalls returns who waits for an answer of a frontend tool, and lets nobody
// wait. The mutex is held.
func takeCalls(t *turn) []jsonrpc.ID {
	var open []jsonrpc.ID
	for _, ids := range t.calls {
		open = append(open, ids...)
	}
	clear(t.calls)
	return open
}

// answerCalls tells tool calls that they failed.
func (r *Runtime) answerCalls(ids []jsonrpc.ID, text string) {
	for _, id := range ids {
		r.reply(id, toolResult(text, false))
	}
}

func (r *Runtime) reply(id jsonrpc.ID, result any) {
	if err := r.conn.Reply(id, result); err != nil {
		r.link.Log.Debug().Err(err).Msg("an answer to the agent is lost")
	}
}

func (r *Runtime) refuse(id jsonrpc.ID, code int, message string) {
	if err := r.conn.Refuse(id, code, message); err != nil {
		r.link.Log.Debug().Err(err).Msg("an answer to the agent is lost")
	}
}
