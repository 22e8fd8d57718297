package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fakeCodex speaks the protocol of `codex app-server`. A conversation is a file
// with its total of tokens, once a turn has begun; a second file with the id of a
// process is the lock on it.
type fakeCodex struct {
	*fake

	mu    sync.Mutex
	turns map[string]*codexTurn // by conversation
}

type codexMessage struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  jsontext.Value `json:"error,omitzero"`
}

func newFakeCodex(f *fake) *fakeCodex { return &fakeCodex{fake: f, turns: map[string]*codexTurn{}} }

func (f *fakeCodex) run() int {
	f.lines(func(line jsontext.Value) bool {
		var m codexMessage
		switch {
		case json.Unmarshal(line, &m) != nil:
		case m.Method == "":
			f.answered(string(m.ID), line)
		default:
			f.handle(m)
		}
		return true
	})
	return 0
}

func (f *fakeCodex) handle(m codexMessage) {
	var p struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		Input    []struct {
			Text string `json:"text"`
		} `json:"input"`
	}
	_ = json.Unmarshal(m.Params, &p)
	switch m.Method {
	case "initialize":
		f.notify("configWarning", `{"summary":"x"}`)
		if !f.HangGreet {
			f.reply(m.ID, `{"userAgent":"fake/1.0","codexHome":"/","platformFamily":"unix","platformOs":"linux"}`)
		}
	case "initialized":
	case "thread/start":
		if f.Refuse != "" {
			f.fail(m.ID, f.Refuse)
			return
		}
		id := fmt.Sprintf("01a22d68-0000-7000-8000-%06d%06d", os.Getpid()%1000000, f.number())
		f.lock(id)
		f.reply(m.ID, fmt.Sprintf(`{"thread":{"id":%q,"turns":[]},"model":"m"}`, id))
		f.notify("thread/started", fmt.Sprintf(`{"thread":{"id":%q}}`, id))
	case "thread/resume":
		switch {
		case f.HangResume:
		case f.SlowResume:
			go func(request jsontext.Value) {
				<-f.gate
				f.resume(request, p.ThreadID)
			}(m.ID.Clone())
		default:
			f.resume(m.ID, p.ThreadID)
		}
	case "thread/archive":
		_ = os.Rename(f.file(p.ThreadID), f.file(p.ThreadID)+".archived")
		_ = os.Remove(f.file(p.ThreadID) + ".lock")
		f.reply(m.ID, `{}`)
	case "thread/unarchive":
		if os.Rename(f.file(p.ThreadID)+".archived", f.file(p.ThreadID)) != nil {
			f.fail(m.ID, "no archived rollout found for thread id "+p.ThreadID)
			return
		}
		f.reply(m.ID, `{}`)
	case "thread/unsubscribe":
		f.reply(m.ID, `{"status":"unsubscribed"}`)
	case "thread/backgroundTerminals/clean":
		f.reply(m.ID, `{}`)
	case "turn/start":
		f.start(m.ID, p.ThreadID, p.Input[0].Text)
	case "turn/interrupt":
		f.interrupt(m.ID, p.ThreadID, p.TurnID)
	default:
		f.fail(m.ID, "Invalid request: unknown variant `"+m.Method+"`")
	}
}

func (f *fakeCodex) file(id string) string { return filepath.Join(f.Dir, id) }

func (f *fakeCodex) lock(id string) {
	_ = os.WriteFile(f.file(id)+".lock", []byte(strconv.Itoa(os.Getpid())), 0o600)
}

func (f *fakeCodex) resume(request jsontext.Value, id string) {
	total, err := os.ReadFile(f.file(id))
	_, shelved := os.Stat(f.file(id) + ".archived")
	if err != nil && shelved != nil { // it may have been taken off the shelf between the two looks
		total, err = os.ReadFile(f.file(id))
	}
	holder, _ := os.ReadFile(f.file(id) + ".lock")
	pid, _ := strconv.Atoi(string(holder))
	switch {
	case shelved == nil:
		f.fail(request, "session "+id+" is archived. Run `codex unarchive "+id+"` to unarchive it first.")
	case err != nil:
		f.fail(request, "no rollout found for thread id "+id)
	case pid != 0 && pid != os.Getpid() && isRunning(pid):
		f.fail(request, "thread "+id+" already has an active writer")
	default:
		f.lock(id)
		f.usage(id, "", string(total))
		f.reply(request, fmt.Sprintf(`{"thread":{"id":%q,"turns":[]},"model":"m"}`, id))
	}
}

// codexTurn is a turn that runs.
type codexTurn struct {
	f          *fakeCodex
	thread, id string
	cancel     chan struct{}
	interrupt  sync.Once
}

func (f *fakeCodex) start(request jsontext.Value, thread, text string) {
	if _, err := os.Stat(f.file(thread)); err != nil {
		_ = os.WriteFile(f.file(thread), []byte("0"), 0o600)
	}
	if _, err := os.Stat(f.file(thread) + ".lock"); err != nil {
		f.fail(request, "thread not found: "+thread)
		return
	}
	if text == "refuse at length" {
		f.fail(request, TooLong())
		return
	}
	f.mu.Lock()
	t := f.turns[thread]
	if t != nil { // the real one steers the running turn without a word
		f.mu.Unlock()
		f.reply(request, fmt.Sprintf(`{"turn":{"id":%q,"status":"inProgress"}}`, t.id))
		return
	}
	t = &codexTurn{f: f, thread: thread, id: fmt.Sprintf("turn-%d-%d", os.Getpid(), f.number()), cancel: make(chan struct{})}
	f.turns[thread] = t
	f.mu.Unlock()
	started := fmt.Sprintf(`{"threadId":%q,"turn":{"id":%q,"status":"inProgress","items":[]}}`, thread, t.id)
	if strings.HasPrefix(text, "say early ") { // notifications may be quicker than the answer
		f.notify("turn/started", started)
		f.notify("item/agentMessage/delta", fmt.Sprintf(`{"threadId":%q,"turnId":%q,"itemId":"pre","delta":"pre"}`, thread, t.id))
	}
	note := "null"
	switch {
	case strings.HasPrefix(text, "say longstarted "): // its notification is as long
		started = strings.TrimSuffix(started, "}") + fmt.Sprintf(`,"note":%q}`, TooLong())
		fallthrough
	case strings.HasPrefix(text, "say longstart "), text == "begin at length":
		note = quoted(TooLong())
	}
	f.reply(request, fmt.Sprintf(`{"turn":{"id":%q,"items":[],"status":"inProgress","error":null,"note":%s}}`, t.id, note))
	if text == "begin at length" {
		return // and is never named
	}
	f.notify("thread/status/changed", fmt.Sprintf(`{"threadId":%q,"status":{"type":"active"}}`, thread))
	f.notify("turn/started", started)
	f.item("item/started", t, `{"type":"userMessage","id":"u"}`)
	go f.play(t, text, t.cancel)
}

func (f *fakeCodex) interrupt(request jsontext.Value, thread, turn string) {
	f.mu.Lock()
	t := f.turns[thread]
	f.mu.Unlock()
	switch {
	case t == nil:
		f.fail(request, "no active turn to interrupt")
	case t.id != turn:
		f.fail(request, "expected active turn id "+turn+" but found "+t.id)
	default:
		f.reply(request, `{}`)
		t.interrupt.Do(func() { close(t.cancel) })
	}
}

func (f *fakeCodex) reply(id jsontext.Value, result string) {
	f.Print(fmt.Sprintf("{\"id\":%s,\"result\":%s}\n", id, result))
}

func (f *fakeCodex) fail(id jsontext.Value, message string) {
	f.Print(fmt.Sprintf("{\"error\":{\"code\":-32600,\"message\":%s},\"id\":%s}\n", quoted(message), id))
}

func (f *fakeCodex) notify(method, params string) {
	f.Print(fmt.Sprintf("{\"method\":%q,\"params\":%s,\"emittedAtMs\":1}\n", method, params))
}

func (f *fakeCodex) item(method string, t *codexTurn, item string) {
	f.notify(method, fmt.Sprintf(`{"item":%s,"threadId":%q,"turnId":%q}`, item, t.thread, t.id))
}

func (f *fakeCodex) usage(thread, turn, total string) {
	f.notify("thread/tokenUsage/updated", fmt.Sprintf(
		`{"threadId":%q,"turnId":%q,"tokenUsage":{"total":{"totalTokens":%s,"inputTokens":1},"last":{"totalTokens":%d},"modelContextWindow":1}}`,
		thread, turn, total, TurnTokens))
}

func (t *codexTurn) begin(message string) {
	t.f.item("item/started", t, fmt.Sprintf(`{"type":"agentMessage","id":%q,"text":""}`, message))
}

func (t *codexTurn) delta(message, text string) {
	t.f.notify("item/agentMessage/delta", fmt.Sprintf(`{"threadId":%q,"turnId":%q,"itemId":%q,"delta":%s}`, t.thread, t.id, message, quoted(text)))
}

func (t *codexTurn) end(message, whole string) {
	t.f.item("item/completed", t, fmt.Sprintf(`{"type":"agentMessage","id":%q,"text":%s,"phase":null}`, message, quoted(whole)))
}

func (t *codexTurn) call(name, args string) <-chan string {
	n := t.f.number()
	answer := t.f.ask(strconv.Itoa(n))
	t.f.Print(fmt.Sprintf("{\"method\":\"item/tool/call\",\"id\":%d,\"params\":{\"threadId\":%q,\"turnId\":%q,\"callId\":\"call_%d\",\"namespace\":null,\"tool\":%q,\"arguments\":%s}}\n",
		n, t.thread, t.id, n, name, args))
	text := make(chan string, 1)
	go func() {
		var m struct {
			Result struct {
				ContentItems []struct {
					Text string `json:"text"`
				} `json:"contentItems"`
				Success bool `json:"success"`
			} `json:"result"`
		}
		_ = json.Unmarshal(<-answer, &m)
		if len(m.Result.ContentItems) == 0 {
			text <- "nothing"
			return
		}
		text <- fmt.Sprintf("%t %s", m.Result.Success, m.Result.ContentItems[0].Text)
	}()
	return text
}

// failures are the errors of real runs, by the status of the model's server.
var codexFailures = map[int]string{
	400: `{"message":"{\"error\":{\"message\":\"no such model\"}}","codexErrorInfo":"other","additionalDetails":null}`,
	401: `{"message":"unexpected status 401 Unauthorized: mock, url: http://127.0.0.1/v1/responses","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}},"additionalDetails":null}`,
	429: `{"message":"exceeded retry limit, last status: 429 Too Many Requests","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}},"additionalDetails":null}`,
	500: `{"message":"We’re currently experiencing high demand, which may cause temporary errors.","codexErrorInfo":"internalServerError","additionalDetails":null}`,
}

func (t *codexTurn) fail(status int) { t.failed(codexFailures[status]) }

func (t *codexTurn) cut() {
	t.failed(`{"message":"stream disconnected before completion: error sending request","codexErrorInfo":"other","additionalDetails":null}`)
}

func (t *codexTurn) failed(e string) {
	t.f.notify("error", fmt.Sprintf(`{"error":{"message":"Reconnecting... 1/1","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}}},"willRetry":true,"threadId":%q,"turnId":%q}`, t.thread, t.id))
	t.f.notify("error", fmt.Sprintf(`{"error":%s,"willRetry":false,"threadId":%q,"turnId":%q}`, e, t.thread, t.id))
	t.over("failed", e)
}

func (t *codexTurn) cancelled() { t.over("interrupted", "null") }

func (t *codexTurn) finish() {
	was, _ := os.ReadFile(t.f.file(t.thread))
	total, _ := strconv.Atoi(string(was))
	total += TurnTokens
	_ = os.WriteFile(t.f.file(t.thread), []byte(strconv.Itoa(total)), 0o600)
	t.f.usage(t.thread, t.id, strconv.Itoa(total))
	t.over("completed", "null")
}

func (t *codexTurn) finishTooLong() {
	t.leave()
	t.f.notify("turn/completed", fmt.Sprintf(`{"threadId":%q,"turn":{"id":%q,"items":[{"type":"agentMessage","id":"z","text":%q}],"status":"completed","error":null}}`, t.thread, t.id, TooLong()))
}

func (t *codexTurn) leave() {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	delete(t.f.turns, t.thread)
}

func (t *codexTurn) over(status, e string) {
	t.leave()
	t.f.notify("thread/status/changed", fmt.Sprintf(`{"threadId":%q,"status":{"type":"idle"}}`, t.thread))
	t.f.notify("turn/completed", fmt.Sprintf(`{"threadId":%q,"turn":{"id":%q,"items":[],"itemsView":"summary","status":%q,"error":%s}}`, t.thread, t.id, status, e))
}

func (t *codexTurn) raw(text string) {
	t.f.Print(strings.NewReplacer("$THREAD", t.thread, "$TURN", t.id).Replace(text) + "\n")
}

// quoted writes a text as a JSON string.
func quoted(text string) string {
	b, _ := json.Marshal(text, jsontext.AllowInvalidUTF8(true)) // a string always encodes
	return string(b)
}
