package acp

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/leak"
	"github.com/pedelec/pedelec-core/internal/provider/conformance"
)

// The fake agent is this test binary, started again with knobsEnv set. It speaks
// ACP and does what its prompts say; see fakeAgent.prompt.
const knobsEnv = "FAKE_ACP_KNOBS"

// knobs are what a fake agent does by itself.
type knobs struct {
	Dir string // where sessions are kept and a log of what it read is written

	Version     string // what --version prints; "" = 1.0
	NoACP       bool   // acp --help fails
	HangProbe   bool   // --version never ends, nor does a child that it starts
	ExitAtStart int    // exits with this status and a complaint
	HangInit    bool
	InitVersion int // of the protocol; 0 = 1
	Noise       bool

	Caps        jsontext.Value `json:",omitzero"` // agentCapabilities
	AuthMethods jsontext.Value `json:",omitzero"`
	AuthRefused bool
	AuthHangs   bool
	NewRefused  jsontext.Value `json:",omitzero"` // error that session/new answers with
	NewWaits    bool           // session/new waits for a release
	State       jsontext.Value `json:",omitzero"` // members of session/new's result
	HangResume  bool
	NullLoad    bool
	Replay      bool   // load tells the history first
	Lost        string // error that resuming answers with; "" = an unknown id only
	IgnoreTerm  bool
}

func TestMain(m *testing.M) {
	conformance.RunFake() // a child that a fake left
	if text := os.Getenv(knobsEnv); text != "" {
		os.Exit(runFake(text, os.Args[1:]))
	}
	leak.VerifyTestMain(m)
}

func runFake(text string, args []string) int {
	var k knobs
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	switch strings.Join(args, " ") {
	case "--version":
		if k.HangProbe {
			spawnSleeper()
			select {}
		}
		if k.Version == "" {
			k.Version = "1.0"
		}
		fmt.Println("fake " + k.Version)
		return 0
	case "acp --help":
		if k.NoACP {
			fmt.Println("usage: fake")
			return 0
		}
		fmt.Println("fake acp: speaks the protocol on stdio")
		return 0
	case "acp":
		f := &fakeAgent{knobs: k, cancels: map[string]chan struct{}{}, answers: map[string]chan jsontext.Value{}, gate: make(chan struct{})}
		return f.run()
	}
	fmt.Fprintln(os.Stderr, "unknown arguments", args)
	return 2
}

type fakeAgent struct {
	conformance.Voice
	knobs   knobs
	logFile *os.File

	mu      sync.Mutex
	nextID  int
	cancels map[string]chan struct{}       // by session, while a prompt runs
	answers map[string]chan jsontext.Value // by our request's id
	gate    chan struct{}                  // closed by the prompt "release"
	opened  sync.Once
}

type fakeMessage struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  jsontext.Value `json:"error,omitzero"`
}

func (f *fakeAgent) run() int {
	f.logFile, _ = os.OpenFile(filepath.Join(f.knobs.Dir, "read.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if f.knobs.IgnoreTerm {
		ignoreTerm()
	}
	env := strings.Join(os.Environ(), "\n")
	_ = os.WriteFile(filepath.Join(f.knobs.Dir, "environ"), []byte(env), 0o600)
	if f.knobs.ExitAtStart != 0 {
		fmt.Fprintln(os.Stderr, "fake: cannot start, token=abcdefghijklmnop")
		return f.knobs.ExitAtStart
	}
	if f.knobs.Noise {
		f.Print("Update available! run fake upgrade\n\n[1,2]\n{\"half\": \n   \n")
	}
	go f.watchGate()
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		_, _ = f.logFile.Write(line)
		var m fakeMessage
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.Method == "" {
			f.mu.Lock()
			answered := f.answers[string(m.ID)]
			f.mu.Unlock()
			if answered != nil {
				answered <- bytes.TrimSpace(line)
			}
			continue
		}
		f.handle(m)
	}
}

// watchGate opens the gate when a file says so: the turns that could ask for it
// all wait.
func (f *fakeAgent) watchGate() {
	file := filepath.Join(f.knobs.Dir, fmt.Sprintf("gate.%d", os.Getpid()))
	for range time.Tick(5 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			f.opened.Do(func() { close(f.gate) })
			return
		}
	}
}

func (f *fakeAgent) handle(m fakeMessage) {
	var p struct {
		SessionID string `json:"sessionId"`
		Prompt    []struct {
			Text string `json:"text"`
		} `json:"prompt"`
		Value    string `json:"value"`
		ConfigID string `json:"configId"`
	}
	_ = json.Unmarshal(m.Params, &p)
	switch m.Method {
	case "initialize":
		f.initialize(m)
	case "authenticate":
		switch {
		case f.knobs.AuthHangs:
		case f.knobs.AuthRefused:
			f.fail(m.ID, `{"code":-32603,"message":"nobody is there"}`)
		default:
			f.reply(m.ID, `{}`)
		}
	case "session/new":
		go f.newSession(m)
	case "session/resume", "session/load":
		f.openSession(m, p.SessionID)
	case "session/close":
		f.reply(m.ID, `{}`)
	case "session/set_config_option":
		state := strings.ReplaceAll(string(f.knobs.State), `"currentValue":"old-`+p.ConfigID+`"`, fmt.Sprintf(`"currentValue":%q`, p.Value))
		f.reply(m.ID, state)
	case "session/set_mode":
		f.reply(m.ID, `{}`)
	case "session/prompt":
		f.mu.Lock()
		cancel := make(chan struct{})
		f.cancels[p.SessionID] = cancel
		f.mu.Unlock()
		go f.prompt(m.ID, p.SessionID, p.Prompt[0].Text, cancel)
	case "session/cancel":
		f.mu.Lock()
		if c := f.cancels[p.SessionID]; c != nil {
			close(c)
			delete(f.cancels, p.SessionID)
		}
		f.mu.Unlock()
	default:
		f.fail(m.ID, `{"code":-32601,"message":"no such method"}`)
	}
}

func (f *fakeAgent) initialize(m fakeMessage) {
	if f.knobs.HangInit {
		return
	}
	caps := string(f.knobs.Caps)
	if caps == "" {
		caps = `{"loadSession":true,"sessionCapabilities":{"close":{},"resume":{}}}`
	}
	methods := string(f.knobs.AuthMethods)
	if methods == "" {
		methods = "[]"
	}
	version := max(1, f.knobs.InitVersion)
	f.reply(m.ID, fmt.Sprintf(`{"protocolVersion":%d,"agentCapabilities":%s,"authMethods":%s,"agentInfo":{"name":"fake","version":"1"}}`, version, caps, methods))
}

func (f *fakeAgent) newSession(m fakeMessage) {
	if f.knobs.NewWaits {
		<-f.gate
	}
	if f.knobs.NewRefused != nil {
		f.fail(m.ID, string(f.knobs.NewRefused))
		return
	}
	f.mu.Lock()
	f.nextID++
	id := fmt.Sprintf("ses_%d_%d", os.Getpid(), f.nextID)
	f.mu.Unlock()
	_ = os.WriteFile(filepath.Join(f.knobs.Dir, id), nil, 0o600)
	result := fmt.Sprintf(`{"sessionId":%q`, id)
	if len(f.knobs.State) > 2 {
		result += "," + string(f.knobs.State[1:len(f.knobs.State)-1])
	}
	f.reply(m.ID, result+"}")
	f.update(id, `"sessionUpdate":"available_commands_update","availableCommands":[]`)
}

func (f *fakeAgent) openSession(m fakeMessage, id string) {
	if f.knobs.HangResume {
		return
	}
	_, err := os.Stat(filepath.Join(f.knobs.Dir, id))
	switch {
	case f.knobs.Lost != "":
		f.fail(m.ID, f.knobs.Lost)
		return
	case err != nil:
		f.fail(m.ID, `{"code":-32602,"message":"Invalid params: session not found: `+id+`","data":{"sessionId":"`+id+`"}}`)
		return
	}
	if f.knobs.Replay {
		f.update(id, `"sessionUpdate":"user_message_chunk","messageId":"u","content":{"type":"text","text":"old question"}`)
		f.chunk(id, "old", "old answer")
	}
	if f.knobs.NullLoad {
		f.reply(m.ID, "null")
		return
	}
	f.reply(m.ID, `{}`)
}

func (f *fakeAgent) reply(id jsontext.Value, result string) {
	f.Print(fmt.Sprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", id, result))
}

func (f *fakeAgent) fail(id jsontext.Value, e string) {
	f.Print(fmt.Sprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}\n", id, e))
}

func (f *fakeAgent) update(session, members string) {
	f.Print(fmt.Sprintf("{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":%q,\"update\":{%s}}}\n", session, members))
}

func (f *fakeAgent) chunk(session, message, text string) {
	quoted, _ := json.Marshal(text)
	f.update(session, fmt.Sprintf(`"sessionUpdate":"agent_message_chunk","messageId":%q,"content":{"type":"text","text":%s}`, message, quoted))
}

// request asks the client something and returns the whole line of its answer.
func (f *fakeAgent) request(method, params string) string {
	f.mu.Lock()
	f.nextID++
	id := fmt.Sprintf(`"q%d"`, f.nextID)
	answered := make(chan jsontext.Value, 1)
	f.answers[id] = answered
	f.mu.Unlock()
	f.Print(fmt.Sprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":%q,\"params\":%s}\n", id, method, params))
	return string(<-answered)
}

// prompt does what the text says, a step a line; the last step answers the prompt.
// What stands before a "[User Message]" line is not looked at.
func (f *fakeAgent) prompt(id jsontext.Value, session, text string, cancel chan struct{}) {
	if _, user, ok := strings.Cut(text, "[User Message]\n"); ok {
		text = user
	}
	for line := range strings.SplitSeq(text, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "say": // say MESSAGE-ID TEXT
			message, words, _ := strings.Cut(rest, " ")
			f.chunk(session, message, words)
		case "update":
			f.update(session, rest)
		case "line":
			f.Print(rest + "\n")
		case "longsay":
			f.chunk(session, "long", conformance.TooLong())
		case "longend": // a result of 17 MiB
			result := `{"stopReason":"end_turn","x":"` + conformance.TooLong() + `"}`
			if rest == "id last" {
				f.Print(fmt.Sprintf("{\"jsonrpc\":\"2.0\",\"result\":%s,\"id\":%s}\n", result, id))
				return
			}
			f.reply(id, result)
			return
		case "ask":
			f.chunk(session, "ask", f.request("session/request_permission", fmt.Sprintf(`{"sessionId":%q,"toolCall":%s,"options":[{"optionId":"yes","kind":"allow_once"},{"optionId":"ever","kind":"allow_always"},{"optionId":"no","kind":"reject_once"}]}`, session, rest)))
		case "request":
			method, params, _ := strings.Cut(rest, " ")
			f.chunk(session, "request", f.request(method, params))
		case "release":
			f.opened.Do(func() { close(f.gate) })
		case "gate": // waits for a release
			<-f.gate
		case "wait": // for a cancel
			<-cancel
			f.reply(id, `{"stopReason":"cancelled","usage":{"totalTokens":0}}`)
			return
		case "latecancel": // takes a cancel in, answers after a release
			<-cancel
			<-f.gate
			f.chunk(session, "late", "too late")
			f.reply(id, `{"stopReason":"cancelled"}`)
			return
		case "hang":
			select {}
		case "die":
			fmt.Fprintln(os.Stderr, "fake: dying, api_key=abcdefghijklmnop")
			os.Exit(7)
		case "end": // the whole result
			f.reply(id, rest)
			return
		case "fail": // the whole error
			f.fail(id, rest)
			return
		case "":
		default:
			if !f.Habit(verb) {
				f.chunk(session, "echo", line)
			}
		}
	}
	f.mu.Lock()
	if f.cancels[session] == cancel {
		delete(f.cancels, session)
	}
	f.mu.Unlock()
	f.reply(id, `{"stopReason":"end_turn","usage":{"totalTokens":12}}`)
	f.TurnOver()
}
