package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fakeClaude speaks the protocol of `claude -p` with JSON lines. A conversation is
// a file with its total of tokens, once a turn has begun.
type fakeClaude struct {
	*fake
	session string
	start   int // the total when the process started

	mu     sync.Mutex
	turn   *claudeTurn
	queued []string // texts that came while a turn ran
}

func newFakeClaude(f *fake) *fakeClaude {
	c := &fakeClaude{fake: f}
	for i, arg := range f.args {
		if arg == "--session-id" || arg == "--resume" {
			c.session = f.args[i+1]
		}
	}
	return c
}

func (f *fakeClaude) file() string { return filepath.Join(f.Dir, f.session) }

func (f *fakeClaude) run() int {
	if slices.Contains(f.args, "--resume") {
		was, err := os.ReadFile(f.file())
		switch {
		case f.HangResume:
		case err != nil:
			f.Print(fmt.Sprintf("{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"num_turns\":0,\"session_id\":\"x\",\"usage\":{},\"modelUsage\":{},\"errors\":[%s]}\n",
				quoted("No conversation found with session ID: "+f.session)))
			return 1
		}
		f.start, _ = strconv.Atoi(string(was))
	}
	status := 0
	f.lines(func(line jsontext.Value) bool {
		var m struct {
			Type      string `json:"type"`
			RequestID string `json:"request_id"`
			Request   struct {
				Subtype       string   `json:"subtype"`
				SDKMCPServers []string `json:"sdkMcpServers"`
			} `json:"request"`
			Response struct {
				RequestID string `json:"request_id"`
			} `json:"response"`
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		}
		if json.Unmarshal(line, &m) != nil { // the real one exits, too
			fmt.Fprintln(os.Stderr, "fake: not JSON:", string(line))
			status = 1
			return false
		}
		switch {
		case m.Type == "user":
			f.begin(m.Message.Content)
		case m.Type == "control_response":
			f.answered(m.Response.RequestID, line)
		case m.Request.Subtype == "initialize":
			go f.initialize(m.RequestID, m.Request.SDKMCPServers)
		case m.Request.Subtype == "interrupt":
			f.interrupt(m.RequestID)
		}
		return true
	})
	return status
}

func (f *fakeClaude) initialize(id string, servers []string) {
	if f.HangGreet || f.HangResume && slices.Contains(f.args, "--resume") {
		return
	}
	for _, server := range servers {
		f.mcp(server, `{"method":"initialize","params":{"protocolVersion":"2025-11-25"},"jsonrpc":"2.0","id":0}`)
		f.mcp(server, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		f.keep("tools", string(f.mcp(server, `{"method":"tools/list","jsonrpc":"2.0","id":1}`)))
	}
	f.Print(fmt.Sprintf("{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":%q,\"response\":{\"commands\":[]}}}\n", id))
}

// mcp sends a message to a server on our side and returns the answer.
func (f *fakeClaude) mcp(server, message string) jsontext.Value {
	return f.question(fmt.Sprintf(`{"subtype":"mcp_message","server_name":%q,"message":%s}`, server, message))
}

func (f *fakeClaude) question(request string) jsontext.Value {
	id := fmt.Sprintf("q-%d", f.number())
	answer := f.ask(id)
	f.Print(fmt.Sprintf("{\"type\":\"control_request\",\"request_id\":%q,\"request\":%s}\n", id, request))
	return at(<-answer, []string{"response"})
}

// claudeTurn is a turn that runs.
type claudeTurn struct {
	f       *fakeClaude
	cancel  chan struct{}
	once    sync.Once
	message string // whose stream is open
}

func (f *fakeClaude) begin(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.turn != nil {
		f.queued = append(f.queued, text)
		return
	}
	if _, err := os.Stat(f.file()); err != nil {
		_ = os.WriteFile(f.file(), []byte("0"), 0o600)
	}
	f.turn = &claudeTurn{f: f, cancel: make(chan struct{})}
	f.say(`{"type":"system","subtype":"init","tools":[]}`)
	go f.play(f.turn, text, f.turn.cancel)
}

func (f *fakeClaude) interrupt(id string) {
	f.mu.Lock()
	t := f.turn
	f.mu.Unlock()
	f.Print(fmt.Sprintf("{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":%q,\"response\":{\"still_queued\":[]}}}\n", id))
	if t != nil {
		t.once.Do(func() { close(t.cancel) })
	}
}

// say prints a line of the conversation.
func (f *fakeClaude) say(line string) {
	f.Print(strings.TrimSuffix(line, "}") + fmt.Sprintf(",\"session_id\":%q,\"uuid\":\"u\"}\n", f.session))
}

func (t *claudeTurn) event(e string) {
	t.f.say(`{"type":"stream_event","event":` + e + `,"parent_tool_use_id":null}`)
}

func (t *claudeTurn) begin(message string) {
	t.message = message
	t.event(fmt.Sprintf(`{"type":"message_start","message":{"id":%q,"content":[]}}`, message))
	t.event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
}

func (t *claudeTurn) delta(_, text string) {
	t.event(fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`, quoted(text)))
}

func (t *claudeTurn) end(message, whole string) {
	t.assistant(message, whole)
	t.event(`{"type":"content_block_stop","index":0}`)
	t.event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`)
	t.event(`{"type":"message_stop"}`)
	t.message = ""
}

func (t *claudeTurn) assistant(message, text string) {
	t.f.say(fmt.Sprintf(`{"type":"assistant","message":{"id":%q,"role":"assistant","content":[{"type":"text","text":%s}]},"parent_tool_use_id":null}`, message, quoted(text)))
}

func (t *claudeTurn) call(tool, args string) <-chan string {
	text := make(chan string, 1)
	n := t.f.number()
	go func() {
		permission := t.f.question(fmt.Sprintf(`{"subtype":"can_use_tool","tool_name":"mcp__pedelec__%s","input":%s,"tool_use_id":"toolu_%d"}`, tool, args, n))
		if got := string(at(permission, []string{"response", "behavior"})); got != `"allow"` {
			text <- "denied " + string(permission)
			return
		}
		answer := t.f.mcp("pedelec", fmt.Sprintf(
			`{"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"claudecode/toolUseId":"toolu_%d","progressToken":2}},"jsonrpc":"2.0","id":%d}`, tool, args, n, n))
		var m struct {
			Response struct {
				MCP struct {
					Result struct {
						Content []struct {
							Text string `json:"text"`
						} `json:"content"`
						IsError bool `json:"isError"`
					} `json:"result"`
				} `json:"mcp_response"`
			} `json:"response"`
		}
		_ = json.Unmarshal(answer, &m)
		if len(m.Response.MCP.Result.Content) == 0 {
			text <- "nothing"
			return
		}
		text <- fmt.Sprintf("%t %s", !m.Response.MCP.Result.IsError, m.Response.MCP.Result.Content[0].Text)
	}()
	return text
}

// claudeFailures are the words and kinds of real runs, by the status of the model's
// server.
var claudeFailures = map[int][3]string{
	400: {"API Error: 400 no such model", "invalid_request_error", "invalid_request"},
	401: {"Failed to authenticate. API Error: 401 mock", "authentication_error", "authentication_failed"},
	429: {"API Error: Request rejected (429) · mock", "rate_limit_error", "rate_limit"},
	500: {"API Error: 500 mock", "api_error", "server_error"},
}

func (t *claudeTurn) fail(status int) {
	words := claudeFailures[status]
	t.f.say(fmt.Sprintf(`{"type":"system","subtype":"api_retry","attempt":1,"error_status":%d,"error":%q}`, status, words[2]))
	t.f.say(fmt.Sprintf(`{"type":"assistant","message":{"id":"synthetic","model":"<synthetic>","content":[{"type":"text","text":%s}]},"error":%q,"parent_tool_use_id":null}`, quoted(words[0]), words[2]))
	t.result("success", fmt.Sprintf(`"is_error":true,"terminal_reason":"api_error","api_error_status":%d,"api_error_type":%q,"result":%s`, status, words[1], quoted(words[0])), 0)
}

func (t *claudeTurn) cut() {
	t.f.say(`{"type":"assistant","message":{"id":"synthetic","model":"<synthetic>","content":[{"type":"text","text":"API Error: Connection error."}]},"error":"unknown","parent_tool_use_id":null}`)
	t.result("success", `"is_error":true,"terminal_reason":"api_error","api_error_status":null,"result":"API Error: Connection error."`, 0)
}

func (t *claudeTurn) cancelled() {
	if t.message != "" { // what it had begun is completed, as the real one does
		t.end(t.message, "what had come")
	}
	t.f.say(`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]},"parent_tool_use_id":null}`)
	t.result("error_during_execution", `"is_error":true,"terminal_reason":"aborted_streaming","errors":["[ede_diagnostic] result_type=user"]`, 0)
}

func (t *claudeTurn) finish() {
	t.result("success", `"is_error":false,"terminal_reason":"completed","result":""`, TurnTokens)
}

func (t *claudeTurn) finishTooLong() {
	t.leave()
	if t.f.OldUsage {
		t.f.say(fmt.Sprintf(`{"type":"result","subtype":"success","is_error":false,"result":%q}`, TooLong()))
		return
	}
	t.f.say(fmt.Sprintf(`{"duration_api_ms":1,"stop_reason":"end_turn","subtype":"success","is_error":false,"result":%q,"type":"result","modelUsage":{"m":{"note":%q}}}`,
		TooLong(), strings.Repeat("x", 1000)))
}

func (t *claudeTurn) leave() {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.f.turn = nil
}

// result ends the turn. A turn's cost is spread over the four kinds of tokens.
func (t *claudeTurn) result(subtype, members string, cost int) {
	was, _ := os.ReadFile(t.f.file())
	total, _ := strconv.Atoi(string(was))
	total += cost
	_ = os.WriteFile(t.f.file(), []byte(strconv.Itoa(total)), 0o600)
	models := func(tokens int) string {
		return fmt.Sprintf(`{"m":{"inputTokens":%d,"outputTokens":0,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.1}}`, tokens)
	}
	usage := fmt.Sprintf(`"usage":{"input_tokens":%d},`, cost)
	if t.f.OldUsage { // starts at 0 in each process
		usage += `"modelUsage":` + models(total-t.f.start)
	} else {
		usage += `"modelUsage":` + models(total) + `,"model_usage_since_last_result":` + models(cost)
	}
	t.leave()
	t.f.say(fmt.Sprintf(`{"type":"result","subtype":%q,%s,%s}`, subtype, members, usage))
}

func (t *claudeTurn) raw(text string) { t.f.Print(text + "\n") }
