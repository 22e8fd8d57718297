package claude

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/conformance"
	"github.com/pedelec/pedelec-core/internal/thread"
)

var protocol = conformance.Protocol{
	Key: func(line jsontext.Value) string {
		var l struct {
			Type    string `json:"type"`
			Request struct {
				Subtype string `json:"subtype"`
			} `json:"request"`
		}
		_ = json.Unmarshal(line, &l)
		return l.Type + " " + l.Request.Subtype
	},
	ID:       []string{"request_id"},
	AnswerTo: []string{"response", "request_id"},
	IsAnswer: func(line jsontext.Value) bool { return strings.Contains(string(line), `"control_response"`) },
}

// replay returns a runtime whose agent says what a real one was recorded to say.
func replay(t *testing.T, file string, spec thread.SessionSpec) *Runtime {
	p := conformance.Load(t, filepath.Join("testdata", file), protocol)
	r := newRuntime(quick(), provider.Link{
		Write: p.Write, Post: p.Post, Changed: func() {}, Log: zerolog.Nop(), Redactor: &fault.Redactor{},
		Lookup: func(string) string { return "" }, Launch: &provider.Launch{SessionID: "s", Fresh: true, Spec: spec},
	})
	p.Play(r.Feed)
	t.Cleanup(func() { r.Gone(fault.New(fault.ProviderRuntimeDisconnected, "Over.")) })
	return r
}

func TestRecordedTurns(t *testing.T) {
	tests := []struct {
		file string
		want []string // a turn each
	}{
		{"plain.jsonl", []string{
			"d:Hello | d: from | d: mock:  | d:laude-code)\n</system-reminder>\n\nhi there | m:Hello from mock: laude-code)\n</system-reminder>\n\nhi there | u:138 | ok",
			"d:Hello | d: from | d: mock:  | d:again | m:Hello from mock: again | u:139 | ok",
		}},
		{"bash.jsonl", []string{"d:tool  | d:done | m:tool done | u:281 | ok"}},
		{"unicode.jsonl", []string{"d:哈囉 | d: 🌍 | d: café | m:哈囉 🌍 café | u:149 | ok"}},
		{"usage.jsonl", []string{
			"d:Hello | d: from | d: mock:  | d:/claude-code)\n</system-reminder>\n\nturn 0 | m:Hello from mock: /claude-code)\n</system-reminder>\n\nturn 0 | u:143 | ok",
			"d:Hello | d: from | d: mock:  | d:turn 1 | m:Hello from mock: turn 1 | u:144 | ok",
			"d:Hello | d: from | d: mock:  | d:turn 2 | m:Hello from mock: turn 2 | u:145 | ok",
		}},
		{"error400.jsonl", []string{"failed PROVIDER_REQUEST_FAILED"}},
		{"error401.jsonl", []string{"failed PROVIDER_AUTH_REQUIRED"}},
		{"error429.jsonl", []string{"failed PROVIDER_REQUEST_FAILED"}},
		{"error500.jsonl", []string{"failed PROVIDER_REQUEST_FAILED"}},
		// The stream was cut twice, then the answer came whole.
		{"cut.jsonl", []string{"d:one  | d:two  | d:three  | d:one  | d:two  | d:three  | d:one  | d:two  | d:three  | m:ok | u:496 | ok"}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			r := replay(t, tt.file, thread.SessionSpec{})
			sink := conformance.NewCollector(t)
			a, err := r.Attach(t.Context(), thread.SessionSpec{}, sink)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tt.want {
				id := uint64(i + 1)
				if err := a.Conversation.StartTurn(t.Context(), thread.Turn{ID: id, Text: "x"}); err != nil {
					t.Fatal(err)
				}
				if got := conformance.Words(sink.Finished(id)); got != want {
					t.Errorf("turn %d:\n got %s\nwant %s", id, got, want)
				}
			}
		})
	}
}

func TestARecordedErrorKeepsItsWordsAndStructure(t *testing.T) {
	for file, want := range map[string]string{
		"error401.jsonl": `{"errorKind":"authentication_failed","httpStatus":401,"loginCommand":"claude auth login","message":"Failed to authenticate. API Error: 401 mock ERR401","operation":"turn","provider":"claude","retryable":false,"subtype":"success","terminalReason":"api_error"}`,
		"error429.jsonl": `{"errorKind":"rate_limit","httpStatus":429,"message":"API Error: Request rejected (429) · mock ERR429","operation":"turn","provider":"claude","retryable":true,"subtype":"success","terminalReason":"api_error"}`,
	} {
		r := replay(t, file, thread.SessionSpec{})
		sink := conformance.NewCollector(t)
		a, _ := r.Attach(t.Context(), thread.SessionSpec{}, sink)
		if err := a.Conversation.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
			t.Fatal(err)
		}
		frames := sink.Finished(1)
		got, _ := json.Marshal(frames[len(frames)-1].Err.Details, json.Deterministic(true))
		if string(got) != want {
			t.Errorf("%s:\n got %s\nwant %s", file, got, want)
		}
	}
}

func TestARecordedInterruptTellsNoMessage(t *testing.T) {
	r := replay(t, "interrupt.jsonl", thread.SessionSpec{})
	sink := conformance.NewCollector(t)
	a, err := r.Attach(t.Context(), thread.SessionSpec{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Conversation.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	sink.Saw("s0 ")
	if err := a.Conversation.Cancel(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := conformance.Words(sink.Finished(1)); strings.Contains(got, "m:") || !strings.HasSuffix(got, "| cancelled") {
		t.Error(got)
	}
	if err := a.Conversation.StartTurn(t.Context(), thread.Turn{ID: 2, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if got := conformance.Told(sink.Finished(2)); !strings.Contains(got, "m:Hello from mock: ") || !strings.HasSuffix(got, "| ok") {
		t.Error(got)
	}
}

func TestARecordedResumeOfAnUnknownConversation(t *testing.T) {
	r := replay(t, "lost.jsonl", thread.SessionSpec{SessionID: "gone"})
	ctx, cancel := context.WithTimeout(t.Context(), conformance.Patience)
	defer cancel()
	if err := r.Handshake(ctx); !fault.Is(err, fault.ProviderSessionLost) {
		t.Errorf("handshake: %v", err)
	}
}

func TestRecordedToolsOverTheControlChannel(t *testing.T) {
	spec := thread.SessionSpec{Skills: &thread.Skills{Tools: []thread.Tool{{Name: "open_page", ArgsSchema: jsontext.Value(`{"type":"object"}`)}}}}
	r := replay(t, "tool.jsonl", spec)
	ctx, cancel := context.WithTimeout(t.Context(), conformance.Patience)
	defer cancel()
	if err := r.Handshake(ctx); err != nil {
		t.Fatal(err)
	}
	sink := conformance.NewCollector(t)
	a, err := r.Attach(ctx, spec, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Conversation.StartTurn(ctx, thread.Turn{ID: 1, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	call := sink.Called(0)
	if call.Name != "open_page" || call.CallID != "toolu_21" || string(call.Args) != `{"url":"http://a"}` {
		t.Errorf("call %+v", call)
	}
	if err := a.Conversation.AnswerTool(ctx, call.CallID, thread.ToolAnswer{Result: jsontext.Value(`"x"`)}); err != nil {
		t.Fatal(err)
	}
	if got := conformance.Words(sink.Finished(1)); got != "tool:open_page | d:tool  | d:done | m:tool done | u:317 | ok" {
		t.Error(got)
	}
}

func TestRecordedQuestionsAreAnswered(t *testing.T) {
	r := replay(t, "permission.jsonl", thread.SessionSpec{})
	sink := conformance.NewCollector(t)
	a, err := r.Attach(t.Context(), thread.SessionSpec{WorkspacePath: "/work-dir/ws-a", Permission: thread.PermitWorkspace}, sink)
	if err != nil {
		t.Fatal(err)
	}
	for id := uint64(1); id <= 2; id++ { // the player waits for each answer
		if err := a.Conversation.StartTurn(t.Context(), thread.Turn{ID: id, Text: "x"}); err != nil {
			t.Fatal(err)
		}
		if got := conformance.Told(sink.Finished(id)); !strings.HasSuffix(got, "m:tool done | ok") {
			t.Errorf("turn %d: %s", id, got)
		}
	}
}
