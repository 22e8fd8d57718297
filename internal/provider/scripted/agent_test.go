package scripted

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

func wantRPC(t *testing.T, err error, code int, part string) {
	t.Helper()
	var e *rpcError
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, part) {
		t.Errorf("error %v, want %d %q", err, code, part)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		out    string
		err    string
	}{
		{[]string{"--version"}, exitDone, Version, ""},
		{[]string{"--scripted", "--version"}, exitDone, Version, ""},
		{[]string{"acp", "--help"}, exitDone, "acp", ""},
		{[]string{"--scripted", "acp", "--help"}, exitDone, "acp", ""},
		{[]string{"--model", "x"}, exitUsage, "", "--model"},
	} {
		var out, errOut bytes.Buffer
		status := Run(t.Context(), strings.NewReader(""), &out, &errOut, c.args, nil)
		if status != c.status || !strings.Contains(out.String(), c.out) || !strings.Contains(errOut.String(), c.err) {
			t.Errorf("%q: status %d, out %q, err %q", c.args, status, &out, &errOut)
		}
	}
}

func TestAStateFolderThatCannotBeMadeIsSaid(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(taken, nil, 0o600))
	var out, errOut bytes.Buffer
	status := Run(t.Context(), strings.NewReader(""), &out, &errOut, nil, []string{StateEnv + "=" + taken})
	if status != exitFailed || !strings.Contains(errOut.String(), StateEnv) {
		t.Errorf("status %d, err %q", status, &errOut)
	}
}

func TestInitializeSaysWhatTheAgentCan(t *testing.T) {
	c := inProcess(t)
	_, err := c.call("session/new", object{"cwd": t.TempDir()})
	wantRPC(t, err, codeInvalidRequest, "initialize")
	result, err := c.call("initialize", object{"protocolVersion": 1})
	must(t, err)
	var r struct {
		ProtocolVersion   int   `json:"protocolVersion"`
		AuthMethods       []any `json:"authMethods"`
		AgentCapabilities struct {
			LoadSession         bool            `json:"loadSession"`
			SessionCapabilities map[string]any  `json:"sessionCapabilities"`
			McpCapabilities     map[string]bool `json:"mcpCapabilities"`
		} `json:"agentCapabilities"`
	}
	must(t, json.Unmarshal(result, &r))
	caps := r.AgentCapabilities
	if r.ProtocolVersion != 1 || !caps.LoadSession || !caps.McpCapabilities["http"] || len(r.AuthMethods) != 0 {
		t.Errorf("%s", result)
	}
	for _, name := range []string{"close", "list", "resume"} {
		if caps.SessionCapabilities[name] == nil {
			t.Errorf("%s is not offered", name)
		}
	}
}

func TestInitializeAsTold(t *testing.T) {
	t.Run("fail", func(t *testing.T) {
		_, err := inProcess(t, InitEnv+"=fail").call("initialize", object{})
		wantRPC(t, err, codeInternal, "told to fail")
	})
	t.Run("old", func(t *testing.T) {
		result, err := inProcess(t, InitEnv+"=old").call("initialize", object{})
		must(t, err)
		if !strings.Contains(string(result), `"protocolVersion":0`) {
			t.Errorf("%s", result)
		}
	})
	t.Run("auth", func(t *testing.T) {
		c := inProcess(t, InitEnv+"=auth").initialise()
		_, err := c.call("session/new", object{"cwd": t.TempDir()})
		wantRPC(t, err, codeAuthRequired, "Authentication")
	})
	t.Run("wait", func(t *testing.T) { inProcess(t, InitEnv+"=wait:1ms").initialise() })
	t.Run("hang", func(t *testing.T) {
		c := inProcess(t, InitEnv+"=hang")
		c.start("initialize", object{})
		_, err := c.call("session/list", object{}) // answered meanwhile, and refused
		wantRPC(t, err, codeInvalidRequest, "initialize")
	})
	t.Run("exit", func(t *testing.T) {
		c := startChild(t, InitEnv+"=exit")
		if _, err := c.call("initialize", object{}); !errors.Is(err, errOutputEnded) || c.exit() != exitFailed {
			t.Errorf("error %v", err)
		}
	})
}

func TestRequestsThatMakeNoSenseAreAnswered(t *testing.T) {
	c := inProcess(t).initialise()
	id := c.session()
	for _, r := range []struct {
		method string
		params object
		code   int
		part   string
	}{
		{"session/fork", object{}, codeMethodNotFound, "session/fork"},
		{"session/new", object{"cwd": "relative"}, codeInvalidParams, "absolute"},
		{"session/new", object{"cwd": 7}, codeInvalidParams, "invalid params"},
		{"session/load", object{"sessionId": "ses_unknown1"}, codeInvalidParams, "session not found"},
		{"session/resume", object{"sessionId": "../../etc/passwd"}, codeInvalidParams, "session not found"},
		{"session/close", object{"sessionId": "ses_unknown1"}, codeInvalidParams, "session not found"},
		{"session/prompt", promptParams("ses_unknown1", "x"), codeInvalidParams, "session not found"},
		{"session/set_config_option", object{"sessionId": id, "configId": "model", "value": "x"}, codeInvalidParams, "model not found"},
		{"session/set_config_option", object{"sessionId": id, "configId": "x", "value": "x"}, codeInvalidParams, "option not found"},
		{"session/set_config_option", object{"sessionId": "ses_unknown1", "configId": "model", "value": "x"}, codeInvalidParams, "session not found"},
	} {
		_, err := c.call(r.method, r.params)
		wantRPC(t, err, r.code, r.part)
	}
	_, err := c.in.Write([]byte("this is no frame\n\n{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n"))
	must(t, err)
	c.notify("session/cancel", object{"sessionId": "ses_unknown1"})
	c.notify("$/something", object{})
	if got := c.say(id, "still there?"); got != "still there?" {
		t.Errorf("said %q", got)
	}
}

func TestAnyPromptIsAnsweredWithItsOwnText(t *testing.T) {
	c := inProcess(t).initialise()
	id := c.session()
	for _, text := range []string{"Hello, agent!", "a", "Grüße 東京 🚲", "wait for me", "fail", "exit now", "stream of words", "two\nlines", strings.Repeat("long ", 100_000)} {
		got := c.say(id, text)
		if got != text {
			t.Errorf("said %.80q for %.80q", got, text)
		}
		if len(text) > 8 && len(c.updates) < 3 {
			t.Errorf("%.20q came in %d chunks", text, len(c.updates))
		}
	}
	if got := c.say(id, ""); got != "(an empty message)" {
		t.Errorf("said %q", got)
	}
	if got := c.say(id, " /init me"); got != "" {
		t.Errorf("a slash command said %q", got)
	}
}

func TestUsageIsInTheAnswer(t *testing.T) {
	c := inProcess(t).initialise()
	id := c.session()
	_, o, err := c.prompt(id, "three little words")
	must(t, err)
	if o.Usage.TotalTokens != 6 {
		t.Errorf("usage %+v", o.Usage)
	}
	_, o, err = c.prompt(id, "usage 1234 ; echo done")
	must(t, err)
	if o.Usage.TotalTokens != 1234 || c.updates[0].Kind != "usage_update" {
		t.Errorf("usage %+v, updates %+v", o.Usage, c.updates)
	}
}

const hostBlock = "[Pedelec Host Bootstrap]\nBe good. Prepare with PEDELEC_PREPARED.\n[/Pedelec Host Bootstrap]\n\n[User Message]\n"

func TestTheHostBlockIsNotedAndNotRepeated(t *testing.T) {
	c := inProcess(t).initialise()
	plain, instructed := c.session(), c.session()
	if got := c.say(plain, "whoami"); !strings.Contains(got, "turn=1 instructed=false") {
		t.Errorf("said %q", got)
	}
	if got := c.say(instructed, hostBlock+"hello\n[User Message]\nagain"); got != "hello\n[User Message]\nagain" {
		t.Errorf("said %q", got)
	}
	if got := c.say(instructed, "whoami"); !strings.Contains(got, "turn=2 instructed=true") {
		t.Errorf("said %q", got)
	}
	for prompt, want := range map[string]string{
		hostBlock + "x":                    "x",
		"\n" + hostBlock + " x\n":          " x\n",
		"[Pedelec Host Bootstrap]\nno end": "[Pedelec Host Bootstrap]\nno end",
		"[Pedelec Host Bootstrap]\n{\"guidance\":\"[/Pedelec Host Bootstrap]\"}\n[/Pedelec Host Bootstrap]\nx":                                            "x",
		"[Pedelec Host Instructions]\nBe kind.\n\n[Pedelec Host Context]\n{}\n[/Pedelec Host Context]\n[/Pedelec Host Instructions]\n\n[User Message]\nx": "x",
		"about [Pedelec Host Bootstrap]": "about [Pedelec Host Bootstrap]",
	} {
		if _, got := cutHostBlock(prompt); got != want {
			t.Errorf("%q gave %q, want %q", prompt, got, want)
		}
	}
}

const preparePrompt = "[Session Preparation]\nAnswer with exactly PEDELEC_PREPARED and nothing else."

func TestPreparation(t *testing.T) {
	t.Run("is acknowledged exactly", func(t *testing.T) {
		c := inProcess(t).initialise()
		for _, text := range []string{preparePrompt, hostBlock + preparePrompt} {
			if got := c.say(c.session(), text); got != "PEDELEC_PREPARED" {
				t.Errorf("said %q", got)
			}
		}
		if got := c.say(c.session(), hostBlock+"hello"); got != "hello" {
			t.Errorf("the word in the host block was taken for a preparation: %q", got)
		}
	})
	t.Run("wrong for the process", func(t *testing.T) {
		c := inProcess(t, PrepareEnv+"=wrong").initialise()
		if got := c.say(c.session(), preparePrompt); got == "" || strings.Contains(got, "PEDELEC") {
			t.Errorf("said %q", got)
		}
	})
	t.Run("fails for the process", func(t *testing.T) {
		c := inProcess(t, PrepareEnv+"=fail").initialise()
		_, _, err := c.prompt(c.session(), preparePrompt)
		wantRPC(t, err, codeInternal, "told to fail")
	})
	t.Run("hangs until cancelled", func(t *testing.T) {
		c := inProcess(t, PrepareEnv+"=hang").initialise()
		id := c.session()
		turn := c.startPrompt(id, preparePrompt)
		c.notify("session/cancel", object{"sessionId": id})
		if o, err := c.finish(turn); err != nil || o.StopReason != "cancelled" {
			t.Errorf("%+v %v", o, err)
		}
	})
	t.Run("as the folder says", func(t *testing.T) {
		c := inProcess(t, PrepareEnv+"=fail").initialise()
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, prepareFile), []byte("wrong\n"), 0o600))
		if got := c.say(c.sessionIn(dir), preparePrompt); got == "PEDELEC_PREPARED" {
			t.Errorf("said %q", got)
		}
	})
	t.Run("as an earlier turn said, once", func(t *testing.T) {
		c := inProcess(t).initialise()
		id := c.session()
		c.say(id, "prepare-wrong")
		if got := c.say(id, preparePrompt); got == "PEDELEC_PREPARED" {
			t.Errorf("said %q", got)
		}
		if got := c.say(id, preparePrompt); got != "PEDELEC_PREPARED" {
			t.Errorf("said %q", got)
		}
	})
}

func TestSessionsOutliveTheProcess(t *testing.T) {
	state := StateEnv + "=" + t.TempDir()
	dir := t.TempDir()
	first := startChild(t, state)
	first.initialise()
	id := first.sessionIn(dir)
	first.say(id, hostBlock+"hello")
	_, err := first.call("session/set_config_option", object{"sessionId": id, "configId": "model", "value": "scripted/large"})
	must(t, err)
	first.updates = nil
	first.startPrompt(id, "stream 1000000 every 1ms")
	first.until(3)
	must(t, first.cmd.Process.Kill())
	first.exit()

	second := startChild(t, state)
	second.initialise()
	_, err = second.call("session/prompt", promptParams(id, "x"))
	wantRPC(t, err, codeInvalidParams, "session not found")
	_, err = second.call("session/resume", object{"sessionId": id, "cwd": dir, "mcpServers": []any{}})
	must(t, err)
	if len(second.updates) != 0 {
		t.Errorf("resume replayed %+v", second.updates)
	}
	got := second.say(id, "whoami")
	for _, part := range []string{"session=" + id, "turn=3", "instructed=true", "model=scripted/large", "cwd=" + dir} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
	second.updates = nil
	_, err = second.call("session/load", object{"sessionId": id, "cwd": dir, "mcpServers": []any{}})
	must(t, err)
	var replayed []string
	for _, u := range second.updates {
		replayed = append(replayed, u.Kind+" "+u.Text)
	}
	want := []string{"user_message_chunk hello", "agent_message_chunk hello", "user_message_chunk stream 1000000 every 1ms", "user_message_chunk whoami", "agent_message_chunk " + got}
	if strings.Join(replayed, "\n") != strings.Join(want, "\n") {
		t.Errorf("replayed %q, want %q", replayed, want)
	}
	list, err := second.call("session/list", object{})
	must(t, err)
	if !strings.Contains(string(list), id) {
		t.Errorf("list %s", list)
	}
}

func TestATornRecordIsSkipped(t *testing.T) {
	dir := t.TempDir()
	s := &store{dir}
	must(t, s.append("ses_torntorn", record{Kind: recordOpen, Cwd: "/a"}))
	path := filepath.Join(dir, "ses_torntorn.jsonl")
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append(data, []byte(`{"kind":"user","te`)...), 0o600))
	must(t, s.append("ses_torntorn", record{Kind: recordUser, Text: "b"}))
	records, err := s.read("ses_torntorn")
	must(t, err)
	if len(records) != 2 || records[1].Text != "b" {
		t.Errorf("records %+v", records)
	}
}

func TestTheDefaultStateFolderIsTheUsersOwn(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := openStore("")
	must(t, err)
	for _, id := range []string{"ses_oldoldold", "ses_newnewnew"} {
		must(t, s.append(id, record{Kind: recordOpen}))
	}
	old := time.Now().Add(-8 * 24 * time.Hour)
	must(t, os.Chtimes(filepath.Join(s.dir, "ses_oldoldold.jsonl"), old, old))
	again, err := openStore("")
	must(t, err)
	if list, err := again.list(); err != nil || again.dir != s.dir || len(list) != 1 || list[0].id != "ses_newnewnew" {
		t.Errorf("%+v %v", list, err)
	}
	must(t, os.RemoveAll(s.dir))
	must(t, os.Symlink(t.TempDir(), s.dir))
	if _, err := openStore(""); err == nil {
		t.Error("a link in its place was accepted")
	}
}

func TestAClosedSessionIsGoneUntilItIsOpenedAgain(t *testing.T) {
	c := inProcess(t).initialise()
	id := c.session()
	turn := c.startPrompt(id, "hang")
	_, err := c.call("session/resume", object{"sessionId": id})
	wantRPC(t, err, codeInvalidRequest, "runs")
	_, err = c.call("session/close", object{"sessionId": id})
	must(t, err)
	if o, err := c.finish(turn); err != nil || o.StopReason != "cancelled" {
		t.Errorf("%+v %v", o, err)
	}
	_, _, err = c.prompt(id, "x")
	wantRPC(t, err, codeInvalidParams, "session not found")
	_, err = c.call("session/resume", object{"sessionId": id})
	must(t, err)
	if got := c.say(id, "whoami"); !strings.Contains(got, "turn=2") {
		t.Errorf("said %q", got)
	}
}

func TestASecondPromptIsRefusedAndSessionsDoNotWaitForEachOther(t *testing.T) {
	c := inProcess(t).initialise()
	busy, free := c.session(), c.session()
	turn := c.startPrompt(busy, "hang")
	_, _, err := c.prompt(busy, "x")
	wantRPC(t, err, codeInvalidRequest, "runs")
	if got := c.say(free, "hello"); got != "hello" {
		t.Errorf("said %q", got)
	}
	c.notify("session/cancel", object{"sessionId": busy})
	if o, err := c.finish(turn); err != nil || o.StopReason != "cancelled" {
		t.Errorf("%+v %v", o, err)
	}
	if got := c.say(busy, "hello"); got != "hello" {
		t.Errorf("said %q", got)
	}
}

func TestTheEndOfTheInputEndsTheProgramInATurn(t *testing.T) {
	c := startChild(t)
	c.initialise()
	c.startPrompt(c.session(), "echo begun ; hang-hard")
	c.until(1)
	must(t, c.in.Close())
	if status := c.exit(); status != exitDone {
		t.Errorf("status %d", status)
	}
}

func TestACancelledContextEndsRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, w, err := os.Pipe()
	must(t, err)
	var out bytes.Buffer
	if status := Run(ctx, r, &out, &out, nil, []string{StateEnv + "=" + t.TempDir()}); status != exitDone {
		t.Errorf("status %d: %s", status, &out)
	}
	must(t, w.Close()) // lets the reading goroutine go
	r.Close()
}

// The table in the package documentation and the commands are the same.
func TestEveryDocumentedCommandExists(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	must(t, err)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z-]+)(?: [A-Z|a-z\[\] ]*?)?  +[a-z]`).FindAllStringSubmatch(string(doc), -1) {
		documented[m[1]] = true
	}
	documented["stream"] = regexp.MustCompile(`(?m)^//\tstream N `).Match(doc)
	for _, c := range commands {
		if !documented[c.name] {
			t.Errorf("%s is not documented", c.name)
		}
		delete(documented, c.name)
	}
	for name := range documented {
		t.Errorf("%s is documented and does not exist", name)
	}
}
