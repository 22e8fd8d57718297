package acp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestATurnTellsDeltasMessagesUsageAndOneEnd(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"one message", "say m1 Hello\nsay m1 , world", "d:Hello | d:, world | m:Hello, world | u:12 | ok"},
		{"another message id ends a message", "say m1 one\nsay m2 two", "d:one | m:one | d:two | m:two | u:12 | ok"},
		{"a tool call ends a message", "say m1 one\nupdate \"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\"\nsay m1 two",
			"d:one | m:one | d:two | m:two | u:12 | ok"},
		{"thoughts and plans are no text", "update \"sessionUpdate\":\"agent_thought_chunk\",\"content\":{\"type\":\"text\",\"text\":\"hm\"}\nupdate \"sessionUpdate\":\"plan\",\"entries\":[]\nsay m1 x",
			"d:x | m:x | u:12 | ok"},
		{"an unknown update is no text", "update \"sessionUpdate\":\"brand_new\",\"x\":1\nsay m1 x", "d:x | m:x | u:12 | ok"},
		{"an image is no text", "update \"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"image\",\"data\":\"\"}", "u:12 | ok"},
		{"a complete message replaces its chunks", "say m1 dra\nupdate \"sessionUpdate\":\"agent_message\",\"content\":{\"type\":\"text\",\"text\":\"draft\"}",
			"d:dra | m:draft | u:12 | ok"},
		{"no text at all", "end {\"stopReason\":\"end_turn\"}", "ok"},
		{"usage that is no whole number", "end {\"stopReason\":\"end_turn\",\"usage\":{\"totalTokens\":1.5}}", "ok"},
		{"negative usage", "end {\"stopReason\":\"end_turn\",\"usage\":{\"totalTokens\":-3}}", "ok"},
		{"usage of another shape", "end {\"stopReason\":\"end_turn\",\"usage\":7}", "failed PROVIDER_PROTOCOL_ERROR"},
		{"token limit", "say m1 half\nend {\"stopReason\":\"max_tokens\",\"usage\":{\"totalTokens\":9}}", "d:half | u:9 | failed PROVIDER_REQUEST_FAILED"},
		{"refusal", "end {\"stopReason\":\"refusal\"}", "failed PROVIDER_REQUEST_FAILED"},
		{"a reason of the future", "end {\"stopReason\":\"tired\"}", "failed PROVIDER_REQUEST_FAILED"},
		{"cancelled by itself", "say m1 half\nend {\"stopReason\":\"cancelled\"}", "d:half | cancelled"},
		{"no reason", "end {}", "failed PROVIDER_PROTOCOL_ERROR"},
		{"null", "end null", "failed PROVIDER_PROTOCOL_ERROR"},
		{"an error", "say m1 half\nfail {\"code\":-32603,\"message\":\"Internal error: mock\"}", "d:half | failed PROVIDER_REQUEST_FAILED"},
		{"an error without a message", "fail {}", "failed PROVIDER_REQUEST_FAILED"},
		{"a login is missing", "fail {\"code\":-32000,\"message\":\"Authentication required\"}", "failed PROVIDER_AUTH_REQUIRED"},
		{"lines that are no frames", "line banner\nline\nline {\"half\":\nline [1]\nline {}\nline {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\nsay m1 x", "d:x | m:x | u:12 | ok"},
		{"a piece of a message of 17 MiB", "say m1 x\nlongsay\nwait", "d:x | failed PROVIDER_PROTOCOL_ERROR"},
		{"an answer of 17 MiB", "say m1 x\nlongend", "d:x | failed PROVIDER_PROTOCOL_ERROR"},
		{"an answer of 17 MiB that shows whose it is at its end", "say m1 x\nlongend id last", "d:x | failed PROVIDER_PROTOCOL_ERROR"},
		{"updates of another session", "line {\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"other\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"no\"}}}}\nsay m1 x",
			"d:x | m:x | u:12 | ok"},
	}
	r := newRig(t, OpenCode(), knobs{Noise: true})
	a, sink := r.open(r.spec("t1"))
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := words(r.run(a, sink, uint64(i+1), tt.text)); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
	if n := len(r.manager.Runtimes()); n != 1 {
		t.Errorf("%d processes ran", n)
	}
}

func TestAFailedTurnCarriesTheAgentsWords(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	a, sink := r.open(r.spec("t1"))
	frames := r.run(a, sink, 1, `fail {"code":-32603,"message":"bad key sk-abcdefghijklmnopqrst","data":{"errorName":"APIError"}}`)
	e := frames[0].Err
	eq(t, "details", e.Details, map[string]any{
		"provider": "opencode", "operation": "session/prompt", "errorCode": -32603,
		"message": "bad key [redacted]", "data": map[string]any{"errorName": "APIError"},
	})
	if !strings.Contains(e.Message(), "bad key [redacted]") {
		t.Errorf("message %q", e.Message())
	}
	frames = r.run(a, sink, 2, `end {"stopReason":"max_tokens"}`)
	eq(t, "stop reason", frames[0].Err.Details["stopReason"], "max_tokens")
}

func TestThreadsShareOneProcess(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	a1, s1 := r.open(r.spec("t1"))
	a2, s2 := r.open(r.spec("t2"))
	r.start(a1, 1, "say m one\nwait")
	s1.sawText("one")
	if got := words(r.run(a2, s2, 1, "say m two")); got != "d:two | m:two | u:12 | ok" {
		t.Error(got)
	}
	infos := r.manager.Runtimes()
	if len(infos) != 1 || infos[0].Sessions != 2 || infos[0].Turns != 1 || infos[0].Provider != thread.OpenCode {
		t.Errorf("runtimes %+v", infos)
	}
	if err := a1.Conversation.Cancel(r.ctx, 1); err != nil {
		t.Fatal(err)
	}
	if got := words(s1.finished(1)); got != "d:one | cancelled" {
		t.Error(got)
	}
}

func TestAMessageWithoutEndFailsItsTurnAlone(t *testing.T) {
	f := OpenCode()
	f.MessageLimit = 8
	r := newRig(t, f, knobs{})
	a1, s1 := r.open(r.spec("t1"))
	a2, s2 := r.open(r.spec("t2"))
	r.start(a2, 1, "say m short\ngate")
	s2.sawText("short")
	got := words(r.run(a1, s1, 1, "say m 12345\nsay m 678\nsay m 9\nwait\nsay m more"))
	if got != "d:12345 | d:678 | failed PROVIDER_PROTOCOL_ERROR" {
		t.Error(got)
	}
	r.openGateIn(r.pids()[0])
	if got := words(s2.finished(1)); got != "d:short | m:short | u:12 | ok" {
		t.Errorf("the other thread: %s", got)
	}
	if got := words(r.run(a1, s1, 2, "say m1 12345678\nsay m2 12345678")); got != "d:12345678 | m:12345678 | d:12345678 | m:12345678 | u:12 | ok" {
		t.Errorf("the next turn: %s", got)
	}
	if len(r.pids()) != 1 {
		t.Error("the process was not kept")
	}
}

func TestASecondTurnIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	a, sink := r.open(r.spec("t1"))
	r.start(a, 1, "say m x\nwait")
	sink.sawText("x")
	err := a.Conversation.StartTurn(r.ctx, thread.Turn{ID: 2, Text: "again"})
	if !fault.Is(err, fault.ThreadBusy) {
		t.Errorf("second turn: %v", err)
	}
	_ = a.Conversation.Cancel(r.ctx, 2) // of a turn that never was: nothing
	_ = a.Conversation.Cancel(r.ctx, 1)
	_ = a.Conversation.Cancel(r.ctx, 1)
	sink.finished(1)
	if got := len(r.prompts()); got != 1 {
		t.Errorf("%d prompts were written", got)
	}
	cancels := slices.DeleteFunc(r.methods(), func(m string) bool { return m != "session/cancel" })
	if len(cancels) != 1 {
		t.Errorf("%d cancels were written", len(cancels))
	}
}

func TestInstructionsGoInFrontOfTheFirstTextOfASession(t *testing.T) {
	for _, f := range []Flavour{OpenCode(), Cursor()} {
		t.Run(f.Provider.String(), func(t *testing.T) {
			r := newRig(t, f, knobs{})
			spec := r.spec("t1")
			spec.Instructions = always("Be kind.")
			a, sink := r.open(spec)
			r.run(a, sink, 1, "/first")
			r.run(a, sink, 2, "second")
			r.run(a, sink, 3, " \n/third")
			file := filepath.Join(r.ws, ".pedelec-runtime", "threads", "t1", "instructions.md")
			text, err := os.ReadFile(file)
			if keeps := f.Provider == thread.OpenCode; keeps != (err == nil) || (keeps && string(text) != "Be kind.") {
				t.Errorf("instructions file: %q, %v", text, err)
			}
			prompts := r.prompts()
			first := prompts[0]
			if !strings.HasPrefix(first, "[Pedelec Host Instructions]\nBe kind.") || !strings.HasSuffix(first, "[User Message]\n/first") {
				t.Errorf("first prompt %q", first)
			}
			eq(t, "later prompts", prompts[1:], []string{"second", "- \n/third"[:2] + " \n/third"})

			spec.SessionID, spec.Instructed = a.SessionID, true
			a, sink = r.open(spec)
			r.run(a, sink, 4, "fourth")
			spec.Instructed = false
			a, sink = r.open(spec)
			r.run(a, sink, 5, "fifth")
			prompts = r.prompts()
			eq(t, "resumed and instructed", prompts[3], "fourth")
			if !strings.HasPrefix(prompts[4], "[Pedelec Host Instructions]\n") {
				t.Errorf("resumed and not instructed: %q", prompts[4])
			}
		})
	}
}

func TestCancelAndEndLeaveNothingOpen(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	a, sink := r.open(r.spec("t1"))
	r.start(a, 1, "say m x\nwait")
	sink.sawText("x")
	if err := a.Conversation.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	if a.Conversation.Alive() {
		t.Error("a closed conversation is alive")
	}
	if err := a.Conversation.StartTurn(r.ctx, thread.Turn{ID: 2, Text: "x"}); err == nil {
		t.Error("a closed conversation took a turn")
	}
	r.until("the turn's end in the agent", func() bool { return len(r.manager.Runtimes()) == 0 || r.manager.Runtimes()[0].Sessions == 0 })
	for _, f := range sink.all() {
		if f.Kind == thread.FrameFinished {
			t.Error("a frame reached the sink after Close")
		}
	}
}

func TestAgentRequestsAreAnsweredAtOnce(t *testing.T) {
	ws := t.TempDir()
	inside := filepath.Join(ws, "file")
	if err := os.WriteFile(inside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, step, want string
		flavour          Flavour
	}{
		{"a method that is not offered", `request fs/read_text_file {"path":"x"}`, `"code":-32601`, OpenCode()},
		{"another agent's method", `request cursor/ask_question {}`, `"code":-32601`, OpenCode()},
		{"a question to the user", `request cursor/ask_question {}`, `"outcome":"skipped"`, Cursor()},
		{"a plan to review", `request cursor/create_plan {}`, `"outcome":"rejected"`, Cursor()},
		{"an edit inside", `ask {"kind":"edit","rawInput":{"filePath":"` + inside + `"}}`, `"optionId":"yes"`, OpenCode()},
		{"an edit outside", `ask {"kind":"edit","rawInput":{"filePath":"/etc/passwd"}}`, `"optionId":"no"`, OpenCode()},
		{"one path outside", `ask {"kind":"edit","locations":[{"path":"` + inside + `"}],"rawInput":{"edits":[{"file_path":"/etc/x"}]}}`, `"optionId":"no"`, OpenCode()},
		{"a diff outside", `ask {"kind":"edit","locations":[{"path":"` + inside + `"}],"content":[{"type":"diff","path":"/etc/x"}]}`, `"optionId":"no"`, OpenCode()},
		{"a shell command", `ask {"kind":"execute","rawInput":{"command":"ls"}}`, `"optionId":"no"`, Cursor()},
		{"our own command", `ask {"kind":"execute","rawInput":{"command":"pedelec-cli --thread-id t tool-call add '{\"a\":1}'"}}`, `"optionId":"yes"`, Cursor()},
		{"a command of unknown shape", `ask {"rawInput":{"command":{"run":"ls"},"path":"` + inside + `"}}`, `"optionId":"no"`, Cursor()},
		{"a search without a place", `ask {"kind":"search","rawInput":{"pattern":"**/*.{go,md}"}}`, `"optionId":"yes"`, OpenCode()},
		{"a search in a file", `ask {"kind":"search","rawInput":{"pattern":"func x","path":"` + inside + `"}}`, `"optionId":"yes"`, OpenCode()},
		{"a search elsewhere by its pattern", `ask {"kind":"search","rawInput":{"pattern":"/etc/*","path":"` + ws + `"}}`, `"optionId":"no"`, OpenCode()},
		{"a search that its pattern leads up", `ask {"kind":"search","rawInput":{"pattern":"../*","path":"` + ws + `"}}`, `"optionId":"no"`, OpenCode()},
		{"a search elsewhere by its pattern, in other words", `ask {"kind":"search","rawInput":{"glob_pattern":"{/etc,src}/*","target_directory":"` + ws + `"}}`, `"optionId":"no"`, Cursor()},
		{"a search by a pattern that is no text", `ask {"kind":"search","rawInput":{"pattern":["/etc/*"],"path":"` + ws + `"}}`, `"optionId":"no"`, OpenCode()},
		{"nothing named", `ask {"kind":"other"}`, `"optionId":"no"`, OpenCode()},
		{"a question that cannot be read", `request session/request_permission {"options":7}`, `"code":-32602`, OpenCode()},
		{"a question of no session", `request session/request_permission {"sessionId":"other","toolCall":{},"options":[]}`, `"outcome":"cancelled"`, OpenCode()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.flavour, knobs{})
			r.ws = ws
			a, sink := r.open(r.spec("t1"))
			frames := r.run(a, sink, 1, tt.step)
			if len(frames) == 0 || !strings.Contains(frames[0].Text, tt.want) {
				t.Errorf("answered %s, want %s", words(frames), tt.want)
			}
		})
	}
}
