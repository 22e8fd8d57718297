package modelserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// messagesRequest is the part of a Messages request that matters here.
type messagesRequest struct {
	Model    string         `json:"model"`
	Stream   bool           `json:"stream"`
	System   jsontext.Value `json:"system"` // a string, or a list of blocks
	Messages []struct {
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"` // a string, or a list of blocks
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// readMessages reads a request of Anthropic's Messages, as Claude Code makes it.
func readMessages(body jsontext.Value) (*Request, error) {
	var c messagesRequest
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	r := &Request{Path: "/v1/messages", Model: c.Model, Stream: c.Stream, Body: body}
	system, err := contentText(c.System)
	if err != nil {
		return nil, err
	}
	r.Messages = append(r.Messages, Message{Role: "system", Text: system})
	for _, m := range c.Messages {
		messages, err := blocks(m.Role, m.Content)
		if err != nil {
			return nil, err
		}
		r.Messages = append(r.Messages, messages...)
	}
	for _, tool := range c.Tools {
		r.Tools = append(r.Tools, tool.Name)
	}
	return r, nil
}

// blocks splits a message: results of tools are blocks of the user's messages, and
// a text that was never answered stands in one message with the next.
func blocks(role string, content jsontext.Value) ([]Message, error) {
	if content.Kind() != '[' {
		text, err := contentText(content)
		return []Message{{Role: role, Text: text}}, err
	}
	var parts []struct {
		Type    string         `json:"type"`
		Text    string         `json:"text"`
		Content jsontext.Value `json:"content"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return nil, err
	}
	var all []Message
	for _, p := range parts {
		switch {
		case p.Type == "tool_result":
			all = append(all, Message{Role: "tool", Text: string(p.Content)})
		case strings.HasPrefix(strings.TrimSpace(p.Text), "<system-reminder>"): // the agent's own words
		case p.Text != "":
			all = append(all, Message{Role: role, Text: p.Text})
		}
	}
	return all, nil
}

func (s *Server) serveMessages(w http.ResponseWriter, hr *http.Request) {
	body, err := readBody(hr)
	if err != nil {
		return // the client is gone
	}
	r, err := readMessages(body)
	if err != nil {
		s.record(&Request{Path: hr.URL.Path, Body: body})
		messagesError(w, http.StatusBadRequest, err.Error())
		return
	}
	id := s.record(r)
	plan := PlanFor(*r)
	if plan.Status != 0 {
		messagesError(w, plan.Status, fmt.Sprintf("the test asked for status %d", plan.Status))
		return
	}
	message := map[string]any{
		"id": fmt.Sprintf("msg_%d", id), "type": "message", "role": "assistant", "model": r.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": messagesUsage(1),
	}
	if !r.Stream {
		if plan.Hang {
			<-hr.Context().Done()
			s.abort(r)
			return
		}
		if plan.CutAfter > 0 {
			panic(http.ErrAbortHandler) // breaks the connection
		}
		message["content"] = []any{map[string]any{"type": "text", "text": strings.Join(plan.Chunks, "")}}
		message["stop_reason"], message["usage"] = "end_turn", messagesUsage(CompletionTokens)
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream := messagesStream{w: w, ctx: hr.Context(), n: id, message: message, split: plan.Split}
	if err := stream.write(plan); err != nil {
		s.abort(r)
	}
}

func messagesUsage(output int) any {
	return map[string]any{
		"input_tokens": PromptTokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output,
	}
}

func messagesError(w http.ResponseWriter, status int, text string) {
	kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}[status]
	if kind == "" {
		kind = "api_error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": text}})
}

// serveCount answers how many tokens a request would have.
func serveCount(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, fmt.Sprintf(`{"input_tokens":%d}`, PromptTokens))
}

// messagesStream writes an answer as server-sent events.
type messagesStream struct {
	w       http.ResponseWriter
	ctx     context.Context
	n       int // of the answer
	message map[string]any
	split   bool
}

// write carries out a plan. It returns an error when the client went away.
func (s *messagesStream) write(p Plan) error {
	if err := s.event("message_start", map[string]any{"message": s.message}); err != nil {
		return err
	}
	if p.Hang {
		<-s.ctx.Done()
		return s.ctx.Err()
	}
	reason := "end_turn"
	err := error(nil)
	if p.Tool != nil {
		reason = "tool_use"
		err = s.block(map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", s.n), "name": p.Tool.Name, "input": map[string]any{}},
			Plan{Chunks: []string{string(p.Tool.Args)}}, "input_json_delta", "partial_json")
	} else {
		err = s.block(map[string]any{"type": "text", "text": ""}, p, "text_delta", "text")
	}
	if err != nil {
		return err
	}
	if err := s.event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": CompletionTokens},
	}); err != nil {
		return err
	}
	return s.event("message_stop", map[string]any{})
}

func (s *messagesStream) block(start map[string]any, p Plan, delta, member string) error {
	if err := s.event("content_block_start", map[string]any{"index": 0, "content_block": start}); err != nil {
		return err
	}
	for i, chunk := range p.Chunks {
		if p.CutAfter > 0 && i == p.CutAfter {
			panic(http.ErrAbortHandler) // breaks the connection
		}
		if err := pause(s.ctx, p.Every); err != nil {
			return err
		}
		if err := s.event("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": delta, member: chunk}}); err != nil {
			return err
		}
	}
	return s.event("content_block_stop", map[string]any{"index": 0})
}

func (s *messagesStream) event(kind string, members map[string]any) error {
	members["type"] = kind
	return writeEvent(s.w, kind, members, s.split)
}
