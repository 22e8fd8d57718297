package scripted

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

func TestAScriptDoesItsCommandsInOrder(t *testing.T) {
	c := inProcess(t, "COLOUR=blue", "EMPTY=").initialise()
	dir := t.TempDir()
	id := c.sessionIn(dir)
	for script, want := range map[string]string{
		"echo one":                              "one",
		"echo one ; echo two":                   "one | two",
		"echo one\n\necho two\r\nsome text":     "one | two | some text",
		"  echo one":                            "one",
		"message A | B|C":                       "A | B | C",
		"stream 3":                              "1 2 3 ",
		"stream 2 every 1ms of 4":               "..1 ..2 ",
		"stream 2 of 4 every 1ms":               "..1 ..2 ",
		"stream 2 every":                        "stream 2 every",
		"stream 0":                              "stream 0",
		"stream 2 each 1ms":                     "stream 2 each 1ms",
		"wait 1ms ; echo done":                  "done",
		"wait -1s":                              "wait -1s",
		"wait 99h":                              "wait 99h",
		"env COLOUR":                            "COLOUR=blue",
		"env EMPTY":                             "EMPTY=",
		"env NOTHING":                           "NOTHING is not set",
		"write notes/a.txt some text ; echo ok": "wrote notes/a.txt | ok",
		"write ../a.txt text":                   "write ../a.txt text",
		"echo a ; tool Look around ; echo b":    "a | b",
		"split":                                 "Grüße aus 東京 🚲",
		"banner ; echo after":                   "after",
		"bigline 100 ; echo after":              "after",
		"exit 256":                              "exit 256",
		"hang on":                               "hang on",
		"echo PEDELEC_PREPARED and more, please.": "PEDELEC_PREPARED and more, please.",
	} {
		if got := c.say(id, script); got != want {
			t.Errorf("%q said %q, want %q", script, got, want)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "notes", "a.txt")); err != nil || string(data) != "some text" {
		t.Errorf("the file holds %q (%v)", data, err)
	}
	if len(c.strays) != 2 || !strings.HasPrefix(strings.Join(c.strays, ""), "***") && len(c.strays[0]) != 101 {
		t.Errorf("stray lines %q", c.strays)
	}
}

func TestTurnsThatEndOtherwise(t *testing.T) {
	c := inProcess(t).initialise()
	id := c.session()
	_, _, err := c.prompt(id, "echo before ; fail the model is on strike ; echo after")
	wantRPC(t, err, codeInternal, "the model is on strike")
	if got := c.messages(id); len(got) != 1 || got[0] != "before" {
		t.Errorf("said %q", got)
	}
	_, o, err := c.prompt(id, "refuse ; echo after")
	must(t, err)
	if o.StopReason != "refusal" || len(c.messages(id)) != 0 {
		t.Errorf("%+v, said %q", o, c.messages(id))
	}
}

func TestCancelEndsAnythingAtOnce(t *testing.T) {
	for _, script := range []string{"hang", "wait 1h", "stream 1000 every 1h", "stream 100000000", "permission a.txt", "slow-cancel 1ms"} {
		t.Run(script, func(t *testing.T) {
			c := inProcess(t).initialise()
			id := c.session()
			turn := c.startPrompt(id, "echo begun ; "+script+" ; echo never")
			c.until(4)
			begun := time.Now()
			c.notify("session/cancel", object{"sessionId": id})
			o, err := c.finish(turn)
			if err != nil || o.StopReason != "cancelled" || o.Usage.TotalTokens != 0 {
				t.Errorf("%+v %v", o, err)
			}
			t.Logf("confirmed after %v", time.Since(begun))
			if got := c.messages(id); got[len(got)-1] == "never" {
				t.Error("the script went on")
			}
			if got := c.say(id, "next"); got != "next" {
				t.Errorf("the next turn said %q", got)
			}
		})
	}
}

func TestHangHardIgnoresCancel(t *testing.T) {
	c := inProcess(t).initialise()
	id, other := c.session(), c.session()
	c.startPrompt(id, "echo begun ; hang-hard")
	c.until(len("begun"))
	c.notify("session/cancel", object{"sessionId": id})
	// The cancel was handled before this turn began.
	if got := c.say(other, "hello"); got != "hello" {
		t.Errorf("said %q", got)
	}
	_, _, err := c.prompt(id, "x")
	wantRPC(t, err, codeInvalidRequest, "runs")
}

func TestPermissionIsAskedForAndItsAnswerSaid(t *testing.T) {
	c := inProcess(t).initialise()
	dir := t.TempDir()
	id := c.sessionIn(dir)
	var asked []string
	answer := object{"outcome": object{"outcome": "selected", "optionId": "once"}}
	c.onAsk = func(m message) object {
		asked = append(asked, m.Method+" "+string(m.Params))
		return answer
	}
	if got := c.say(id, "permission a.txt"); got != "permission selected once" {
		t.Errorf("said %q", got)
	}
	answer = object{"outcome": object{"outcome": "cancelled"}}
	if got := c.say(id, "permission-shell rm -rf x"); got != "permission cancelled" {
		t.Errorf("said %q", got)
	}
	if len(asked) != 2 {
		t.Fatalf("asked %q", asked)
	}
	var p struct {
		ToolCall struct {
			Kind      string
			Locations []struct{ Path string }
			RawInput  map[string]string
		}
		Options []struct{ Kind string }
	}
	text := strings.TrimPrefix(asked[0], "session/request_permission ")
	must(t, json.Unmarshal([]byte(text), &p, json.MatchCaseInsensitiveNames(true)))
	if p.ToolCall.Kind != "edit" || p.ToolCall.Locations[0].Path != filepath.Join(dir, "a.txt") || len(p.Options) != 3 {
		t.Errorf("asked %s", text)
	}
	if !strings.Contains(asked[1], `"command":"rm -rf x"`) || !strings.Contains(asked[1], `"kind":"execute"`) {
		t.Errorf("asked %s", asked[1])
	}
}

func TestForgetMakesTheSessionUnknownLater(t *testing.T) {
	c := inProcess(t).initialise()
	id := c.session()
	c.say(id, "forget")
	if got := c.say(id, "still here"); got != "still here" {
		t.Errorf("said %q", got)
	}
	for _, method := range []string{"session/resume", "session/load"} {
		_, err := c.call(method, object{"sessionId": id})
		wantRPC(t, err, codeInvalidParams, "session not found")
	}
}

func TestFloods(t *testing.T) {
	c := startChild(t)
	c.initialise()
	id := c.session()
	const big = 17 << 20
	c.say(id, "stderr 100000 ; bigline 17825792 ; echo done")
	if len(c.strays) != 1 || len(c.strays[0]) != big+1 {
		t.Errorf("%d stray lines", len(c.strays))
	}
	c.in.Close()
	c.exit()
	flood, err := os.ReadFile(c.stderr)
	must(t, err)
	if len(flood) != 100000 {
		t.Errorf("standard error got %d bytes", len(flood))
	}
}

func TestDyingInATurn(t *testing.T) {
	for script, status := range map[string]int{"crash": -1, "exit 7": 7, "halfline": exitFailed} {
		t.Run(script, func(t *testing.T) {
			c := startChild(t)
			c.initialise()
			id := c.session()
			_, _, err := c.prompt(id, "echo last words ; "+script)
			if !errors.Is(err, errOutputEnded) {
				t.Errorf("error %v", err)
			}
			if got := c.messages(id); len(got) != 1 || got[0] != "last words" {
				t.Errorf("said %q", got)
			}
			if got := c.exit(); got != status && status >= 0 || status < 0 && got == 0 {
				t.Errorf("status %d", got)
			}
			half := len(c.strays) == 1 && strings.HasPrefix(c.strays[0], `{"jsonrpc"`) && !strings.HasSuffix(c.strays[0], "\n")
			if half != (script == "halfline") {
				t.Errorf("stray lines %q", c.strays)
			}
		})
	}
}

func TestOutputThatNobodyReadsDoesNotHoldTheEnd(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	o := newOutput(w, func() {})
	o.send(t.Context(), make([]byte, 1000))
	begun := time.Now()
	o.close(time.Millisecond)
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("took %v", took)
	}
}

func TestAStreamIsFast(t *testing.T) {
	c := startChild(t)
	c.initialise()
	id := c.session()
	begun := time.Now()
	if got := c.say(id, "stream 20000"); !strings.HasSuffix(got, " 19999 20000 ") {
		t.Errorf("it ends with %q", got[len(got)-30:])
	}
	t.Logf("20,000 chunks in %v", time.Since(begun))
}

func BenchmarkStream(b *testing.B) {
	b.Run("agent", func(b *testing.B) {
		a := newAgent(io.Discard, io.Discard, nil, &store{b.TempDir()})
		turn := &turn{a: a, s: &session{id: "ses_bench"}, ctx: b.Context()}
		turn.newMessage()
		b.ReportAllocs()
		for b.Loop() {
			must(b, turn.say("a word "))
		}
		a.leaveNow()
		a.out.close(drainTime)
	})
	b.Run("baseline-marshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": "ses_bench", "update": object{
				"sessionUpdate": "agent_message_chunk", "messageId": "msg_bench", "content": object{"type": "text", "text": "a word "}}}})
		}
	})
}

// FuzzParseScript reads any prompt; parsing never panics, and a prompt is a
// script exactly when its first line is a command.
func FuzzParseScript(f *testing.F) {
	for _, s := range []string{"echo x", "stream 3 every 1s of 9", " ; ", "a ; b", "echo\n", "\r\n\r\n", "usage 99999999999999999999", "call a {}", "call-parallel 2 a", contextBegin + `{"tools":[{"name":"a"}]}` + contextEnd} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, prompt string) {
		steps, ok := parseScript(prompt)
		if ok != (len(steps) > 0) {
			t.Errorf("%q: %d steps, ok %v", prompt, len(steps), ok)
		}
		cutHostBlock(prompt)
		hostTools(prompt)
		if got := strings.Join(pieces(prompt), ""); got != prompt {
			t.Errorf("pieces of %q are %q", prompt, got)
		}
	})
}
