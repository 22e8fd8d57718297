package codex

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/conformance"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

var protocol = conformance.Protocol{
	Key: func(line jsontext.Value) string {
		m, err := jsonrpc.Decode(line)
		if err != nil || m.Method == "" {
			return "answer"
		}
		return m.Method
	},
	ID:       []string{"id"},
	AnswerTo: []string{"id"},
	IsAnswer: func(line jsontext.Value) bool {
		m, err := jsonrpc.Decode(line)
		return err == nil && m.Kind == jsonrpc.Response
	},
}

// replay returns a runtime whose agent says what a real one was recorded to say.
func replay(t *testing.T, file string) (*Runtime, *conformance.Player) {
	p := conformance.Load(t, filepath.Join("testdata", file), protocol)
	r := newRuntime(quick(), provider.Link{
		Write: p.Write, Post: p.Post, Changed: func() {}, Log: zerolog.Nop(), Redactor: &fault.Redactor{},
		Lookup: func(string) string { return "" },
	})
	p.Play(r.Feed)
	t.Cleanup(func() { r.Gone(fault.New(fault.ProviderRuntimeDisconnected, "Over.")) })
	return r, p
}

// openPage is the tool of the recorded page.
func openPage(spec thread.SessionSpec) thread.SessionSpec {
	spec.Skills = &thread.Skills{Tools: []thread.Tool{{Name: "open_page", ArgsSchema: jsontext.Value(`{"type":"object"}`)}}}
	return spec
}

func TestRecordedTurns(t *testing.T) {
	spec := openPage(thread.SessionSpec{ThreadID: "t", Provider: thread.Codex, WorkspacePath: "/work-dir/ws-a"})
	tests := []struct {
		file string
		want []string // a turn each
	}{
		{"plain.jsonl", []string{
			"d:Hello | d: from | d: mock:  | d:hi there | m:Hello from mock: hi there | u:121 | ok",
			"d:Hello | d: from | d: mock:  | d:again | m:Hello from mock: again | u:243 | ok",
		}},
		{"command.jsonl", []string{"u:494 | d:tool  | d:done | m:tool done | u:621 | ok"}},
		{"unicode.jsonl", []string{"d:哈囉 | d: 🌍 | d: café | m:哈囉 🌍 café | u:911 | ok"}},
		{"errors.jsonl", []string{
			"failed PROVIDER_AUTH_REQUIRED", "failed PROVIDER_REQUEST_FAILED", "failed PROVIDER_REQUEST_FAILED",
			"failed PROVIDER_REQUEST_FAILED", "d:one  | d:two  | d:three  | u:642 | d:one  | d:two  | d:three  | u:642 | failed PROVIDER_REQUEST_FAILED",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			r, _ := replay(t, tt.file)
			sink := conformance.NewCollector(t)
			a, err := r.Attach(t.Context(), spec, sink)
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

func TestRecordedErrorsKeepTheirWordsAndStructure(t *testing.T) {
	r, _ := replay(t, "errors.jsonl")
	sink := conformance.NewCollector(t)
	a, err := r.Attach(t.Context(), thread.SessionSpec{ThreadID: "t", WorkspacePath: "/work-dir/ws-b"}, sink)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}},"httpStatus":401,"loginCommand":"codex login","message":"unexpected status 401 Unauthorized: mock ERR401, url: http://127.0.0.1:8899/v1/responses","operation":"turn","provider":"codex","retryable":false}`,
		`{"codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}},"httpStatus":429,"message":"exceeded retry limit, last status: 429 Too Many Requests","operation":"turn","provider":"codex","retryable":true}`,
		`{"codexErrorInfo":"internalServerError","message":"We’re currently experiencing high demand, which may cause temporary errors.","operation":"turn","provider":"codex","retryable":true}`,
		`{"codexErrorInfo":"other","message":"{\"error\":{\"message\":\"mock ERR400\",\"type\":\"mock_error\",\"code\":\"mock\"}}","operation":"turn","provider":"codex","retryable":false}`,
	}
	for i, details := range want {
		id := uint64(i + 1)
		if err := a.Conversation.StartTurn(t.Context(), thread.Turn{ID: id, Text: "x"}); err != nil {
			t.Fatal(err)
		}
		frames := sink.Finished(id)
		got, _ := json.Marshal(frames[len(frames)-1].Err.Details, json.Deterministic(true))
		if string(got) != details {
			t.Errorf("turn %d:\n got %s\nwant %s", id, got, details)
		}
	}
}

func TestRecordedToolCallAndItsResume(t *testing.T) {
	for file, tt := range map[string]struct{ session, want string }{
		"tool.jsonl":   {"", "tool:open_page | u:121 | d:tool  | d:done | m:tool done | u:243 | ok"},
		"resume.jsonl": {"01a22d83-a726-7e91-9981-b9c6933804db", "tool:open_page | u:371 | d:tool  | d:done | m:tool done | u:500 | ok"},
	} {
		t.Run(file, func(t *testing.T) {
			r, _ := replay(t, file)
			sink := conformance.NewCollector(t)
			spec := openPage(thread.SessionSpec{ThreadID: "t", WorkspacePath: "/work-dir/ws-a", SessionID: tt.session})
			a, err := r.Attach(t.Context(), spec, sink)
			if err != nil {
				t.Fatal(err)
			}
			if a.Fresh != (tt.session == "") || a.SessionID != "01a22d83-a726-7e91-9981-b9c6933804db" {
				t.Errorf("attached %+v", a)
			}
			if err := a.Conversation.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
				t.Fatal(err)
			}
			answer := thread.ToolAnswer{Result: jsontext.Value(`"APP RESULT"`)}
			if err := a.Conversation.AnswerTool(t.Context(), sink.Called(0).CallID, answer); err != nil {
				t.Fatal(err)
			}
			if got := conformance.Words(sink.Finished(1)); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestARecordedInterruptIsFollowedByACleanUp(t *testing.T) {
	r, agent := replay(t, "interrupt.jsonl") // its last request is the clean-up
	sink := conformance.NewCollector(t)
	a, err := r.Attach(t.Context(), thread.SessionSpec{ThreadID: "t", WorkspacePath: "/work-dir/ws-a"}, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Conversation.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := a.Conversation.Cancel(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := conformance.Told(sink.Finished(1)); got != "cancelled" {
		t.Error(got)
	}
	agent.Rest()
}

func TestRefusalsMeanWhatTheyWereSeenToMean(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "refusals.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]class{
		"plainFailure": plainFailure, "authRequired": authRequired, "unknownSession": unknownSession,
		"heldElsewhere": heldElsewhere, "shelved": shelved,
	}
	for line := range bytes.Lines(text) {
		var c struct{ Case, Message, Class string }
		if err := json.Unmarshal(line, &c, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		if got := classify(&jsonrpc.Error{Code: -32600, Message: c.Message}); got != words[c.Class] {
			t.Errorf("%s: class %d, want %s", c.Case, got, c.Class)
		}
	}
}
