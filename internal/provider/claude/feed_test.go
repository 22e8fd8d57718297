package claude

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// blind is a sink that only counts.
type blind struct{ frames, ends int }

func (b *blind) Frame(f thread.Frame) {
	b.frames++
	if f.Kind == thread.FrameFinished {
		b.ends++
	}
}

// running returns a runtime with a turn.
func running(tb testing.TB, sink thread.Sink) *Runtime {
	spec := thread.SessionSpec{WorkspacePath: tb.TempDir(), Skills: &thread.Skills{Tools: []thread.Tool{{Name: "add"}}}}
	r := newRuntime(quick(), provider.Link{
		Write: func(context.Context, []byte) error { return nil }, Post: func([]byte) error { return nil },
		Changed: func() {}, Log: zerolog.Nop(), Redactor: &fault.Redactor{}, Launch: &provider.Launch{Spec: spec},
	})
	a, err := r.Attach(tb.Context(), spec, sink)
	if err == nil {
		err = a.Conversation.StartTurn(tb.Context(), thread.Turn{ID: 1, Text: "x"})
	}
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// recorded returns the lines of recorded conversations that the agent wrote.
func recorded(f *testing.F) (lines [][]byte) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var r struct {
				Dir string         `json:"dir"`
				Msg jsontext.Value `json:"msg"`
			}
			if err := json.Unmarshal(line, &r); err == nil && r.Dir == "out" {
				lines = append(lines, r.Msg)
			}
		}
	}
	return lines
}

func FuzzFeed(f *testing.F) {
	for _, line := range recorded(f) {
		f.Add(line)
	}
	for _, line := range []string{
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}},"parent_tool_use_id":null}`,
		`{"type":"stream_event","event":{"type":"message_start","message":{"id":"a"}}}`, `{"type":"stream_event","event":{"type":"message_stop"}}`,
		`{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"x"}]},"parent_tool_use_id":null}`,
		`{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"x","errors":["y"],"modelUsage":{"m":{"inputTokens":1}}}`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"can_use_tool","tool_name":"Write","input":{"file_path":"x"}}}`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"mcp_message","server_name":"pedelec","message":{"id":1,"method":"tools/call","params":{"name":"add","arguments":{}}}}}`,
		`{"type":"control_cancel_request","request_id":"1"}`, `{"type":"control_response","response":{"subtype":"error","request_id":"pedelec-initialize","error":"x"}}`, `[]`, ``,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		sink := &blind{}
		r := running(t, sink)
		r.Feed(line)
		r.Skipped(line, line)
		r.Gone(fault.New(fault.ProviderRuntimeDisconnected, "Over."))
		if sink.ends != 1 {
			t.Errorf("%d terminal frames after %q", sink.ends, line)
		}
	})
}

// TestAnInterruptDoesNotReachALaterTurn repeats an interrupt that was decided on just
// before its turn was over.
func TestAnInterruptDoesNotReachALaterTurn(t *testing.T) {
	var posted []string
	r := running(t, &blind{})
	r.link.Post = func(line []byte) error { posted = append(posted, string(line)); return nil }
	s := r.session
	first := s.turn
	s.interrupt(first)
	if len(posted) != 1 {
		t.Fatalf("posted %q, want one interrupt", posted)
	}
	r.Feed([]byte(`{"type":"result","subtype":"success","result":"x"}`))
	s.interrupt(first)
	if err := s.StartTurn(t.Context(), thread.Turn{ID: 2, Text: "y"}); err != nil {
		t.Fatal(err)
	}
	s.interrupt(first)
	if len(posted) != 1 {
		t.Errorf("a turn that is over was interrupted: %q", posted[1:])
	}
}

func BenchmarkDelta(b *testing.B) {
	text := []byte(`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a few words"}},"session_id":"3b8e38a1-0000-4000-8000-000000000000","parent_tool_use_id":null,"uuid":"3b8e38a1-0000-4000-8000-000000000001"}`)
	b.Run("fed", func(b *testing.B) {
		r := running(b, &blind{})
		b.ReportAllocs()
		for b.Loop() {
			r.Feed(text)
		}
	})
	b.Run("baseline-decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v map[string]any
			if err := json.Unmarshal(text, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
