package acp

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"

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

// prompted returns a runtime whose session "s" has written a prompt, request 1.
func prompted(t *testing.T, sink thread.Sink) *Runtime {
	r := newRuntime(OpenCode(), provider.Link{
		Write: func(context.Context, []byte) error { return nil }, Post: func([]byte) error { return nil },
		Changed: func() {}, Log: zerolog.Nop(), Redactor: &fault.Redactor{},
	})
	s := &session{r: r, Seat: provider.Seat{ID: "s", ThreadID: "t", Out: provider.NewOutlet(sink)}}
	r.Taken[s.ID] = s
	if err := s.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	return r
}

// recorded returns the lines that a real agent wrote, as if they were about the session
// of prompted.
func recorded(f *testing.F) (lines [][]byte) {
	paths, err := filepath.Glob("testdata/opencode-*.jsonl")
	if err != nil || len(paths) == 0 {
		f.Fatalf("%q, %v", paths, err)
	}
	sessions := regexp.MustCompile(`"sessionId":"[^"]*"`)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(sessions.ReplaceAll(text, []byte(`"sessionId":"s"`))) {
			lines = append(lines, bytes.TrimSpace(line))
		}
	}
	return lines
}

// FuzzFeed feeds a line of an agent, twice, to a turn: however it ends, it ends once.
func FuzzFeed(f *testing.F) {
	for _, line := range recorded(f) {
		f.Add(line)
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"pedelec_paint","status":"pending","rawInput":{"a":1}}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","rawInput":{"path":"/x"}},"options":[{"optionId":"o","kind":"allow_once"}]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","usage":{"totalTokens":5}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no login","data":{}}}`,
		`{"jsonrpc":"2.0","id":"8","method":"fs/read_text_file","params":{"path":"/etc/passwd"}}`, `[]`, ``,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		sink := &blind{}
		r := prompted(t, sink)
		r.Feed(line)
		r.Feed(line)
		r.Skipped(line, line)
		r.Gone(fault.New(fault.ProviderRuntimeDisconnected, "Over."))
		r.tasks.Wait()
		if sink.ends != 1 {
			t.Errorf("%d terminal frames after %q", sink.ends, line)
		}
		if load := r.Load(); load != (provider.Load{}) {
			t.Errorf("%q leaves %+v", line, load)
		}
	})
}

// TestChunksAreASignOfLife lets three requests in a row go unanswered while text
// comes: the agent is slow, not gone.
func TestChunksAreASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prompted(t, &blind{})
		for range 5 {
			if err := r.call(t.Context(), r.flavour.Silence, "slow", nil, nil); err == nil {
				t.Fatal("a request was answered")
			}
			r.Feed([]byte(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}}`))
		}
		if err := r.conn.Err(); err != nil {
			t.Errorf("the connection broke: %v", err)
		}
	})
}
