package acp

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestRecordedFramesAreRead(t *testing.T) {
	text, err := os.ReadFile("testdata/opencode-1.18.33.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		m, err := jsonrpc.Decode([]byte(strings.TrimSpace(line)))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case m.Method == "session/update":
			u, err := decodeUpdate(m.Params)
			if err != nil || !strings.HasPrefix(u.session, "ses_") {
				t.Errorf("%s: %+v, %v", line, u, err)
			}
			if u.kind == chunkUpdate && (u.text == "" || !strings.HasPrefix(u.messageID, "msg_")) {
				t.Errorf("%s: %+v", line, u)
			}
			counts[[]string{"other", "chunk", "message", "tool", "change"}[u.kind]]++
		case m.Method == "session/request_permission":
			var p permissionParams
			if err := jsonrpc.Unmarshal(m.Params, &p); err != nil || len(p.Options) != 3 {
				t.Errorf("%s: %+v, %v", line, p, err)
			}
			policy := provider.Policy{Permission: thread.PermitWorkspace, Workspace: t.TempDir()}
			if policy.Allows(p.ToolCall.question()) {
				t.Errorf("allowed: %s", line)
			}
			if d := decision(p.Options, false, false); d.OptionID != "reject" {
				t.Errorf("decision %+v", d)
			}
			counts["question"]++
		case m.Error != nil:
			counts["error"]++
		default:
			counts["result"]++
		}
	}
	eq(t, "frames", counts, map[string]int{"chunk": 2, "tool": 1, "change": 2, "other": 4, "question": 3, "error": 3, "result": 6})
}

func TestAnUpdateIsReadWhateverTheOrderOfItsMembers(t *testing.T) {
	tests := []struct {
		name, params string
		want         update
		fails        bool
	}{
		{name: "as usual", params: `{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a\nb"}}}`,
			want: update{session: "s", kind: chunkUpdate, messageID: "m", text: "a\nb"}},
		{name: "backwards", params: `{"update":{"content":{"text":"x","type":"text"},"messageId":"m","sessionUpdate":"agent_message_chunk"},"sessionId":"s"}`,
			want: update{session: "s", kind: chunkUpdate, messageID: "m", text: "x"}},
		{name: "escaped names", params: `{"\u0073essionId":"s","update":{"sessionUpdate":"tool_call"}}`,
			want: update{session: "s", kind: toolUpdate}},
		{name: "half a surrogate pair", params: `{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}}`,
			want: update{session: "s", kind: chunkUpdate, text: "\uFFFD"}},
		{name: "a name twice", params: `{"sessionId":"r","sessionId":"s","update":{"sessionUpdate":"tool_call"}}`,
			want: update{session: "s", kind: toolUpdate}},
		{name: "no update", params: `{"sessionId":"s"}`, want: update{session: "s"}},
		{name: "content of another shape", params: `{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":[1]}}`,
			want: update{session: "s", kind: chunkUpdate}},
		{name: "an update of another shape", params: `{"sessionId":"s","update":[]}`, fails: true},
		{name: "no object", params: `[]`, fails: true},
		{name: "nothing", params: ``, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := decodeUpdate(jsontext.Value(tt.params))
			if tt.fails {
				if err == nil {
					t.Errorf("read %+v", u)
				}
				return
			}
			if err != nil || u.session != tt.want.session || u.kind != tt.want.kind ||
				u.messageID != tt.want.messageID || u.text != tt.want.text {
				t.Errorf("got %+v, %v", u, err)
			}
		})
	}
}

// bench is a runtime whose agent is the test itself.
type bench struct {
	*Runtime
	posted []string
}

func newBench(t testing.TB, f Flavour) *bench {
	b := &bench{}
	take := func(line []byte) error { b.posted = append(b.posted, string(line)); return nil }
	b.Runtime = newRuntime(f, provider.Link{
		Write:    func(_ context.Context, line []byte) error { return take(line) },
		Post:     take,
		Changed:  func() {},
		Log:      zerolog.Nop(),
		Redactor: &fault.Redactor{},
		Lookup:   func(string) string { return "" },
	})
	return b
}

func (b *bench) session(sink thread.Sink) *session {
	s := &session{r: b.Runtime, Seat: provider.Seat{ID: "ses_1", ThreadID: "t", Out: provider.NewOutlet(sink)}}
	b.Taken[s.ID] = s
	return s
}

func TestOnCancelOpenQuestionsAreAnsweredFirst(t *testing.T) {
	b := newBench(t, OpenCode())
	sink := newCollector(t)
	s := b.session(sink)
	if err := s.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	s.turn.questions["7"] = struct{}{} // asked, and its judge still looks at a slow disk
	b.posted = nil
	if err := s.Cancel(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ask := `{"id":8,"method":"session/request_permission","params":{"sessionId":"ses_1","toolCall":{},"options":[]}}`
	b.Feed([]byte(ask))
	b.Feed([]byte(`{"id":1,"result":{"stopReason":"cancelled"}}`))
	b.Feed([]byte(strings.Replace(ask, "8", "9", 1)))
	eq(t, "written", b.posted, []string{
		`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"cancelled"}}}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"ses_1"}}`,
		`{"jsonrpc":"2.0","id":8,"result":{"outcome":{"outcome":"cancelled"}}}`,
		`{"jsonrpc":"2.0","id":9,"result":{"outcome":{"outcome":"cancelled"}}}`,
	})
	if got := words(sink.all()); got != "cancelled" {
		t.Error(got)
	}
}

func TestWhatAnAgentSaysAfterTheEndOfATurnIsNoText(t *testing.T) {
	b := newBench(t, OpenCode())
	sink := newCollector(t)
	s := b.session(sink)
	if err := s.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	b.Feed([]byte(`{"id":1,"result":{"stopReason":"end_turn"}}`))
	b.Feed([]byte(`{"id":1,"result":{"stopReason":"end_turn"}}`))
	b.Feed(chunkLine("late"))
	b.Gone(fault.New(fault.ProviderRuntimeDisconnected, "Gone."))
	if got := words(sink.all()); got != "ok | gone PROVIDER_RUNTIME_DISCONNECTED" {
		t.Error(got)
	}
}

func TestAPromptForALostSessionMakesTheNextTurnOpenAnother(t *testing.T) {
	b := newBench(t, OpenCode())
	sink := newCollector(t)
	s := b.session(sink)
	if err := s.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	b.Feed([]byte(`{"id":1,"error":{"code":-32602,"message":"Invalid params: session not found: ses_1"}}`))
	if got := words(sink.all()); got != "failed PROVIDER_SESSION_LOST" || s.Alive() {
		t.Errorf("%s, alive %v", got, s.Alive())
	}
}

func TestInstructionsReplaceALinkThatTheAgentPutThere(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	path := filepath.Join(dir, instructionsFile)
	if err := os.WriteFile(secret, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, path); err != nil {
		t.Skip(err)
	}
	if err := replaceFile(path, "new"); err != nil {
		t.Fatal(err)
	}
	kept, _ := os.ReadFile(secret)
	now, _ := os.ReadFile(path)
	if string(kept) != "keep" || string(now) != "new" {
		t.Errorf("link's target %q, file %q", kept, now)
	}
	entries, _ := os.ReadDir(dir)
	if names := slices.Collect(func(yield func(string) bool) {
		for _, e := range entries {
			yield(e.Name())
		}
	}); len(names) != 2 {
		t.Errorf("left over: %v", names)
	}
}

func chunkLine(text string) []byte {
	quoted, _ := json.Marshal(text)
	return []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"ses_1","update":{"sessionUpdate":"agent_message_chunk","messageId":"msg_22d6c2f00001ErBG0MmkR8YMKn","content":{"type":"text","text":` + string(quoted) + `}}}}`)
}

type countSink struct{ frames, bytes int }

func (c *countSink) Frame(f thread.Frame) { c.frames++; c.bytes += len(f.Text) }

// maxAllocsPerDelta is what one chunk of text may allocate from line to frame.
const maxAllocsPerDelta = 6

func TestADeltaAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	b := newBench(t, OpenCode())
	sink := &countSink{}
	s := b.session(sink)
	if err := s.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	line := chunkLine(" some words of text")
	if got := testing.AllocsPerRun(2000, func() { b.Feed(line) }); got > maxAllocsPerDelta {
		t.Errorf("%v allocations a delta, want at most %d", got, maxAllocsPerDelta)
	}
	if sink.frames < 2000 {
		t.Errorf("%d frames", sink.frames)
	}
}

func BenchmarkChunkToDelta(b *testing.B) {
	line := chunkLine(" some words of text")
	b.Run("line to frame", func(b *testing.B) {
		r := newBench(b, OpenCode())
		s := r.session(&countSink{})
		if err := s.StartTurn(b.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			r.Feed(line)
		}
	})
	b.Run("unmarshal baseline", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			var m struct {
				Method string `json:"method"`
				Params struct {
					SessionID string `json:"sessionId"`
					Update    struct {
						Kind      string `json:"sessionUpdate"`
						MessageID string `json:"messageId"`
						Content   struct {
							Type string `json:"type"`
							Text string `json:"text"`
						} `json:"content"`
					} `json:"update"`
				} `json:"params"`
			}
			if err := json.Unmarshal(line, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// FuzzDecodeUpdate reads what an agent may tell: only updates of tool calls tell of
// one, and it is open unless it says that it is over.
func FuzzDecodeUpdate(f *testing.F) {
	for _, params := range []string{
		`{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}}`,
		`{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"pedelec_paint","status":"pending","rawInput":{"a":1}}}`,
		`{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":7,"title":null,"rawInput":[1,]}}`,
	} {
		f.Add(params)
	}
	f.Fuzz(func(t *testing.T, params string) {
		u, err := decodeUpdate(jsontext.Value(params))
		if err != nil {
			return
		}
		if u.call != (callUpdate{}) && u.kind != toolUpdate && u.kind != callChange {
			t.Errorf("%q: a call in %+v", params, u)
		}
		begun := &turn{announced: map[string]*announcement{}, news: make(chan struct{})}
		begun.note(u.call)
		if u.call.over() == (len(begun.announced) > 0) {
			t.Errorf("%q: %d calls are open", params, len(begun.announced))
		}
	})
}

// TestAChunkReadAtOnceIsWhatTheConnectionWouldRead holds the short way of a chunk
// against the long one, and everything that is no chunk to the long one.
func TestAChunkReadAtOnceIsWhatTheConnectionWouldRead(t *testing.T) {
	const update = `"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":`
	long := strings.Repeat("x", maxChunkFrame)
	for name, test := range map[string]struct {
		frame string
		short bool
	}{
		"a chunk":                      {`{"jsonrpc":"2.0",` + update + `"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a\u00e4\n"}}}}`, true},
		"no message id":                {`{` + update + `"agent_message_chunk","content":{"type":"text","text":"a"}}}}`, true},
		"half a surrogate pair":        {`{` + update + `"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}}}`, true},
		"a picture":                    {`{` + update + `"agent_message_chunk","content":{"type":"image","data":"x"}}}}`, true},
		"params first":                 {`{"params":{"update":{"content":{"type":"text","text":"a"},"sessionUpdate":"agent_message_chunk"},"sessionId":"s"},"method":"session/update"}`, true},
		"the end of a tool call":       {`{` + update + `"tool_call_update","toolCallId":"c","status":"completed"}}}`, false},
		"a request":                    {`{"id":7,` + update + `"agent_message_chunk","content":{"type":"text","text":"a"}}}}`, false},
		"no id, said so":               {`{"id":null,` + update + `"agent_message_chunk","content":{"type":"text","text":"a"}}}}`, false},
		"another method":               {`{"method":"session/other","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}}`, false},
		"an answer":                    {`{"id":7,"result":{"sessionId":"s"}}`, false},
		"params of another shape":      {`{"method":"session/update","params":[1]}`, false},
		"a chunk that is a long frame": {`{` + update + `"agent_message_chunk","content":{"type":"text","text":"` + long + `"}}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, short := decodeChunk([]byte(test.frame))
			if short != test.short {
				t.Fatalf("read at once: %v", short)
			}
			if !short {
				return
			}
			m, err := jsonrpc.Decode([]byte(test.frame))
			if err != nil || m.Kind != jsonrpc.Notification || m.Method != updateMethod {
				t.Fatalf("%+v, %v", m, err)
			}
			if want, err := decodeUpdate(m.Params); err != nil || got != want {
				t.Errorf("%+v, want %+v, %v", got, want, err)
			}
		})
	}
}
