package modelserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// responsesRequest is the part of a Responses request that matters here.
type responsesRequest struct {
	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        jsontext.Value  `json:"input"` // a string, or a list of items
	Tools        []responsesTool `json:"tools"`
}

// responsesTool is a tool on offer, or a group of them.
type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"`
}

// readResponses reads a request of OpenAI's Responses, as codex makes it.
func readResponses(body jsontext.Value) (*Request, *responsesRequest, error) {
	var c responsesRequest
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, nil, err
	}
	r := &Request{Path: "/v1/responses", Model: c.Model, Stream: c.Stream, Body: body}
	if c.Instructions != "" {
		r.Messages = append(r.Messages, Message{Role: "system", Text: c.Instructions})
	}
	var items []struct {
		Type    string         `json:"type"`
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
		Output  jsontext.Value `json:"output"`
	}
	if c.Input.Kind() == '[' {
		if err := json.Unmarshal(c.Input, &items); err != nil {
			return nil, nil, err
		}
	}
	for _, item := range items {
		switch {
		case strings.HasSuffix(item.Type, "_output"):
			r.Messages = append(r.Messages, Message{Role: "tool", Text: string(item.Output)})
		case item.Role != "":
			text, err := contentText(item.Content)
			if err != nil {
				return nil, nil, err
			}
			role := item.Role
			if role == "developer" {
				role = "system"
			}
			r.Messages = append(r.Messages, Message{Role: role, Text: text})
		}
	}
	for _, tool := range c.Tools {
		r.Tools = append(r.Tools, tool.names()...)
	}
	return r, &c, nil
}

func (t responsesTool) names() []string {
	if len(t.Tools) == 0 {
		if t.Name == "" {
			return []string{t.Type}
		}
		return []string{t.Name}
	}
	var all []string
	for _, inner := range t.Tools {
		all = append(all, inner.names()...)
	}
	return all
}

func (s *Server) serveResponses(w http.ResponseWriter, hr *http.Request) {
	body, err := readBody(hr)
	if err != nil {
		return // the client is gone
	}
	r, c, err := readResponses(body)
	if err != nil {
		s.record(&Request{Path: hr.URL.Path, Body: body})
		chatError(w, http.StatusBadRequest, err.Error())
		return
	}
	id := s.record(r)
	plan := PlanFor(*r)
	if plan.Status != 0 {
		chatError(w, plan.Status, fmt.Sprintf("the test asked for status %d", plan.Status))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream := responsesStream{w: w, ctx: hr.Context(), n: id, split: plan.Split, tools: c.Tools}
	if err := stream.write(plan); err != nil {
		s.abort(r)
	}
}

// responsesStream writes an answer as server-sent events.
type responsesStream struct {
	w     http.ResponseWriter
	ctx   context.Context
	n     int // of the answer
	seq   int // of the event
	split bool
	tools []responsesTool
}

// write carries out a plan. It returns an error when the client went away.
func (s *responsesStream) write(p Plan) error {
	if err := s.event("response.created", map[string]any{"response": s.response("in_progress")}); err != nil {
		return err
	}
	if p.Hang {
		<-s.ctx.Done()
		return s.ctx.Err()
	}
	var item map[string]any
	if p.Tool != nil {
		item = s.call(*p.Tool)
		if err := s.event("response.output_item.added", map[string]any{"output_index": 0, "item": item}); err != nil {
			return err
		}
	} else {
		var err error
		if item, err = s.text(p); err != nil {
			return err
		}
	}
	if err := s.event("response.output_item.done", map[string]any{"output_index": 0, "item": item}); err != nil {
		return err
	}
	done := s.response("completed")
	done["output"] = []any{item}
	done["usage"] = map[string]any{
		"input_tokens": PromptTokens, "input_tokens_details": map[string]any{"cached_tokens": 0},
		"output_tokens": CompletionTokens, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
		"total_tokens": PromptTokens + CompletionTokens,
	}
	return s.event("response.completed", map[string]any{"response": done})
}

func (s *responsesStream) response(status string) map[string]any {
	return map[string]any{"id": fmt.Sprintf("resp_%d", s.n), "object": "response", "status": status, "output": []any{}}
}

// text streams a message and returns it whole.
func (s *responsesStream) text(p Plan) (map[string]any, error) {
	id := fmt.Sprintf("msg_%d", s.n)
	item := map[string]any{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []any{}}
	if err := s.event("response.output_item.added", map[string]any{"output_index": 0, "item": item}); err != nil {
		return nil, err
	}
	for i, chunk := range p.Chunks {
		if p.CutAfter > 0 && i == p.CutAfter {
			panic(http.ErrAbortHandler) // breaks the connection
		}
		if err := pause(s.ctx, p.Every); err != nil {
			return nil, err
		}
		if err := s.event("response.output_text.delta", map[string]any{"item_id": id, "output_index": 0, "content_index": 0, "delta": chunk}); err != nil {
			return nil, err
		}
	}
	return map[string]any{"type": "message", "id": id, "role": "assistant", "status": "completed", "content": []any{
		map[string]any{"type": "output_text", "text": strings.Join(p.Chunks, ""), "annotations": []any{}},
	}}, nil
}

// call is the request for a tool; one of a group names the group, too.
func (s *responsesStream) call(c ToolCall) map[string]any {
	item := map[string]any{
		"type": "function_call", "id": fmt.Sprintf("fc_%d", s.n), "call_id": fmt.Sprintf("call_%d", s.n),
		"name": c.Name, "arguments": string(c.Args), "status": "completed",
	}
	for _, tool := range s.tools {
		for _, inner := range tool.Tools {
			if inner.Name == c.Name {
				item["namespace"] = tool.Name
			}
		}
		if tool.Type == "custom" && tool.Name == c.Name { // takes text instead of JSON
			item["type"], item["input"] = "custom_tool_call", string(c.Args)
			delete(item, "arguments")
		}
	}
	return item
}

func (s *responsesStream) event(kind string, members map[string]any) error {
	members["type"], members["sequence_number"] = kind, s.seq
	s.seq++
	return writeEvent(s.w, kind, members, s.split)
}
