package modelserver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Usage figures of each answer, so that tests can check what an agent makes of
// them.
const (
	PromptTokens     = 100
	CompletionTokens = 20
)

// chatRequest is the part of a Chat Completions request that matters here.
type chatRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"` // a string, or a list of parts
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

func readChat(body jsontext.Value) (*Request, error) {
	var c chatRequest
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	r := &Request{Path: "/v1/chat/completions", Model: c.Model, Stream: c.Stream, Body: body}
	for _, m := range c.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return nil, err
		}
		r.Messages = append(r.Messages, Message{Role: m.Role, Text: text})
	}
	for _, tool := range c.Tools {
		r.Tools = append(r.Tools, tool.Function.Name)
	}
	return r, nil
}

// contentText returns the text of a message's content.
func contentText(content jsontext.Value) (string, error) {
	switch content.Kind() {
	case '"':
		var s string
		return s, json.Unmarshal(content, &s)
	case '[':
		var parts []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(content, &parts); err != nil {
			return "", err
		}
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
		return strings.Join(texts, "\n"), nil
	}
	return "", nil // null: an assistant message that only calls tools
}

func (s *Server) serveChat(w http.ResponseWriter, hr *http.Request) {
	body, err := readBody(hr)
	if err != nil {
		return // the client is gone
	}
	r, err := readChat(body)
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
	if !r.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, chatWhole(r.Model, id, plan))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream := chatStream{w: w, ctx: hr.Context(), id: fmt.Sprintf("chatcmpl-%d", id), model: r.Model, split: plan.Split}
	if err := stream.write(plan); err != nil {
		s.abort(r)
	}
}

func chatError(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, map[string]any{"error": map[string]any{"message": text, "type": "test_error", "code": "test"}})
}

func chatWhole(model string, id int, p Plan) any {
	return map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", id), "object": "chat.completion", "created": 1, "model": model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": strings.Join(p.Chunks, "")},
		}},
		"usage": chatUsage(),
	}
}

func chatUsage() any {
	return map[string]any{
		"prompt_tokens": PromptTokens, "completion_tokens": CompletionTokens, "total_tokens": PromptTokens + CompletionTokens,
	}
}

// chatStream writes an answer as server-sent events.
type chatStream struct {
	w     http.ResponseWriter
	ctx   context.Context
	id    string
	model string
	split bool
}

// write carries out a plan. It returns an error when the client went away.
func (c *chatStream) write(p Plan) error {
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		return err
	}
	if p.Hang {
		<-c.ctx.Done()
		return c.ctx.Err()
	}
	if err := c.choice(map[string]any{"role": "assistant", "content": ""}, nil); err != nil {
		return err
	}
	finish := "stop"
	if p.Tool != nil {
		finish = "tool_calls"
		call := map[string]any{
			"index": 0, "id": "call_" + c.id, "type": "function",
			"function": map[string]any{"name": p.Tool.Name, "arguments": string(p.Tool.Args)},
		}
		if err := c.choice(map[string]any{"tool_calls": []any{call}}, nil); err != nil {
			return err
		}
	}
	for i, chunk := range p.Chunks {
		if p.CutAfter > 0 && i == p.CutAfter {
			panic(http.ErrAbortHandler) // breaks the connection
		}
		if err := pause(c.ctx, p.Every); err != nil {
			return err
		}
		if err := c.choice(map[string]any{"content": chunk}, nil); err != nil {
			return err
		}
	}
	if err := c.choice(map[string]any{}, finish); err != nil {
		return err
	}
	if err := c.event(c.frame([]any{}, chatUsage())); err != nil {
		return err
	}
	_, err := c.w.Write([]byte("data: [DONE]\n\n"))
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *chatStream) choice(delta map[string]any, finish any) error {
	return c.event(c.frame([]any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}, nil))
}

func (c *chatStream) frame(choices []any, usage any) map[string]any {
	f := map[string]any{"id": c.id, "object": "chat.completion.chunk", "created": 1, "model": c.model, "choices": choices}
	if usage != nil {
		f["usage"] = usage
	}
	return f
}

// event writes one frame, in two pieces that part a code point if the plan says
// so.
func (c *chatStream) event(frame any) error {
	b, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	b = append(append([]byte("data: "), b...), "\n\n"...)
	if i := bytes.IndexFunc(b, func(r rune) bool { return r > 0x7f }); c.split && i >= 0 {
		if err := c.piece(b[:i+1]); err != nil {
			return err
		}
		b = b[i+1:]
	}
	return c.piece(b)
}

func (c *chatStream) piece(b []byte) error {
	if _, err := c.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}
