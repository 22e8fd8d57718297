package scripted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// hostBegin matches the line that opens a host's instructions in a first
// prompt. Hosts call the block by different names; the line that closes it has
// the same one behind a slash.
var hostBegin = regexp.MustCompile(`^\s*\[(Pedelec Host [A-Za-z ]+)\][ \t\r]*\n`)

// userBegin stands before the user's own text.
const userBegin = "[User Message]"

// acknowledgement is what a preparation asks for.
const acknowledgement = "PEDELEC_PREPARED"

// prepareFile in a session's folder says how preparations are answered there.
const prepareFile = ".pedelec-scripted-prepare"

// Words for how a preparation is answered.
const (
	prepareWrong = "wrong"
	prepareFail  = "fail"
	prepareHang  = "hang"
)

// How a turn may end besides normally and with an *rpcError.
var (
	errCancelled = errors.New("cancelled")
	errRefused   = errors.New("refused")
	errLeft      = errors.New("left") // the process is going: no answer at all
)

// turn is one prompt being served.
type turn struct {
	a      *agent
	s      *session
	ctx    context.Context // done when the turn is cancelled
	number int             // of the prompt in its session, from 1
	words  int             // of the prompt

	messages int    // begun so far
	calls    int    // of tools, so far
	chunk    []byte // start of a chunk's frame, up to its text
	line     []byte // reused
	said     strings.Builder
	usage    int // 0 = estimated
}

// prompt starts a turn, or refuses.
func (a *agent) prompt(m message) {
	if err := a.ready(); err != nil {
		a.reply(m.ID, nil, err)
		return
	}
	var p struct {
		SessionID string `json:"sessionId"`
		Prompt    []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"prompt"`
	}
	if err := decode(m.Params, &p); err != nil {
		a.reply(m.ID, nil, err)
		return
	}
	var text strings.Builder
	for _, block := range p.Prompt {
		if block.Type == "text" {
			text.WriteString(block.Text)
		}
	}
	_ = fault.Point("scripted.prompt.read")
	host, userText := cutHostBlock(text.String())
	t, err := a.begin(p.SessionID, host, userText)
	if err != nil {
		a.reply(m.ID, nil, err)
		return
	}
	go func() {
		defer a.turns.Done()
		err := t.play(userText)
		a.end(t)
		t.finish(m.ID, err)
	}()
}

// awaitTurns waits until every turn is over. After it, none begins.
func (a *agent) awaitTurns() {
	a.mu.Lock()
	a.leaving = true
	a.mu.Unlock()
	a.turns.Wait()
}

// begin takes the session for a turn and counts the turn.
func (a *agent) begin(id, host, text string) (*turn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leaving {
		return nil, errLeft
	}
	s := a.sessions[id]
	if s == nil {
		return nil, unknownSession(id)
	}
	if s.cancel != nil {
		return nil, &rpcError{Code: codeInvalidRequest, Message: "the session has a turn that runs"}
	}
	a.turns.Add(1)
	s.prompts++
	instructed := host != ""
	if instructed {
		s.instructed, s.tools = true, hostTools(host)
	}
	// A session that was forgotten has no file any more; its turns go on.
	_ = a.store.append(id, record{Kind: recordUser, Text: text, Instructed: instructed, Tools: hostTools(host), Preparation: isPreparation(text), PID: os.Getpid()})
	_ = fault.Point("scripted.prompt.noted")
	ctx, cancel := context.WithCancel(a.leave)
	s.cancel = cancel
	return &turn{a: a, s: s, ctx: ctx, number: s.prompts, words: len(strings.Fields(text))}, nil
}

// end gives the session back.
func (a *agent) end(t *turn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.s.cancel()
	t.s.cancel = nil
	if t.said.Len() > 0 {
		_ = a.store.append(t.s.id, record{Kind: recordAgent, Text: t.said.String()})
	}
}

func (t *turn) finish(id jsontext.Value, err error) {
	if t.a.leave.Err() != nil || errors.Is(err, errLeft) {
		return
	}
	_ = fault.Point("scripted.answer.before")
	defer func() { _ = fault.Point("scripted.answer.after") }()
	switch {
	case err == nil:
		t.a.reply(id, object{"stopReason": "end_turn", "usage": t.tokens()}, nil)
	case errors.Is(err, errRefused):
		t.a.reply(id, object{"stopReason": "refusal", "usage": t.tokens()}, nil)
	case errors.Is(err, errCancelled):
		t.a.reply(id, object{"stopReason": "cancelled", "usage": tokens(0, 0)}, nil)
	default:
		t.a.reply(id, nil, err)
	}
}

// tokens is the turn's usage: a word counts as a token unless the script named
// a number.
func (t *turn) tokens() object {
	if t.usage > 0 {
		return tokens(0, t.usage)
	}
	return tokens(t.words, len(strings.Fields(t.said.String())))
}

func tokens(in, out int) object {
	return object{"inputTokens": in, "outputTokens": out, "totalTokens": in + out}
}

// play does what the prompt says.
func (t *turn) play(text string) error {
	steps, ok := parseScript(text)
	switch {
	case ok:
	case strings.HasPrefix(strings.TrimSpace(text), "/"):
		return nil
	case isPreparation(text):
		return t.acknowledge()
	default:
		return t.message(text)
	}
	// Each step sees for itself whether the turn was cancelled, so that those
	// which ignore it do so however early it comes.
	for _, step := range steps {
		if err := step(t); err != nil {
			return err
		}
	}
	if t.ctx.Err() != nil {
		return errCancelled
	}
	return nil
}

func isPreparation(text string) bool {
	_, script := parseScript(text)
	return !script && strings.Contains(text, acknowledgement)
}

func (t *turn) acknowledge() error {
	switch t.prepareMode() {
	case prepareWrong:
		return t.message("I am ready, what shall I do?")
	case prepareFail:
		return &rpcError{Code: codeInternal, Message: "told to fail this preparation"}
	case prepareHang:
		<-t.ctx.Done()
		return errCancelled
	}
	return t.message(acknowledgement)
}

func (t *turn) prepareMode() string {
	t.a.mu.Lock()
	mode := t.s.prepare
	t.s.prepare = ""
	t.a.mu.Unlock()
	if mode != "" {
		return mode
	}
	if info, err := os.Lstat(filepath.Join(t.s.cwd, prepareFile)); err == nil && info.Mode().IsRegular() {
		if data, err := os.ReadFile(filepath.Join(t.s.cwd, prepareFile)); err == nil {
			return strings.TrimSpace(string(data))
		}
	}
	return lookup(t.a.env, PrepareEnv)
}

// cutHostBlock splits a prompt into what the host put in front and what the
// user wrote.
func cutHostBlock(prompt string) (host, text string) {
	begin := hostBegin.FindStringSubmatch(prompt)
	if begin == nil {
		return "", prompt
	}
	host, rest, ok := strings.Cut(prompt, "\n[/"+begin[1]+"]")
	if !ok {
		return "", prompt
	}
	_, text, ok = strings.Cut(rest, userBegin+"\n")
	if !ok {
		return host, strings.TrimLeft(rest, "\r\n")
	}
	return host, text
}

// newMessage begins an assistant message; chunks belong to the last one begun.
func (t *turn) newMessage() {
	t.messages++
	id := fmt.Sprintf("msg_%s_%d_%d", strings.TrimPrefix(t.s.id, "ses_"), t.number, t.messages)
	t.chunk = fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","messageId":%q,"content":{"type":"text","text":`, t.s.id, id)
}

const chunkEnd = "}}}}\n"

// say sends one chunk of the message that was begun. It is the hot path of a
// stream, hence no map and no reflection.
func (t *turn) say(text string) error {
	if t.ctx.Err() != nil {
		return errCancelled
	}
	if t.said.Len() < maxHistory {
		t.said.WriteString(text)
	}
	t.a.out.send(t.ctx, t.frame(text))
	_ = fault.Point("scripted.say.after")
	return nil
}

func (t *turn) frame(text string) []byte {
	line, err := jsontext.AppendQuote(append(t.line[:0], t.chunk...), text)
	if err != nil {
		line, _ = jsontext.AppendQuote(append(t.line[:0], t.chunk...), strings.ToValidUTF8(text, "\uFFFD"))
	}
	t.line = append(line, chunkEnd...)
	return t.line
}

// message says a whole message in a few chunks.
func (t *turn) message(text string) error {
	if text == "" {
		text = "(an empty message)"
	}
	t.newMessage()
	for _, piece := range pieces(text) {
		if err := t.say(piece); err != nil {
			return err
		}
	}
	return nil
}

// Chunks of an answer: a short one still comes in several, a long one in chunks
// of a size that a model would send in one go.
const (
	fewChunks     = 4
	maxChunkBytes = 32 << 10
)

// pieces cuts a text into chunks at code points.
func pieces(text string) []string {
	size := min(max(len(text)/fewChunks, 1), maxChunkBytes)
	var out []string
	for len(text) > size {
		cut := size
		for cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut++
		}
		out = append(out, text[:cut])
		text = text[cut:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}

// permission asks the client and returns its answer in words.
func (t *turn) permission(toolCall object) (string, error) {
	toolCall["toolCallId"] = fmt.Sprintf("call_%d_%d", t.number, t.messages)
	toolCall["status"] = "pending"
	m, err := t.a.ask(t.ctx, "session/request_permission", object{
		"sessionId": t.s.id,
		"toolCall":  toolCall,
		"options": []object{
			{"optionId": "once", "name": "Allow once", "kind": "allow_once"},
			{"optionId": "always", "name": "Allow always", "kind": "allow_always"},
			{"optionId": "reject", "name": "Reject", "kind": "reject_once"},
		},
	})
	if err != nil {
		return "", err
	}
	if m.Error != nil {
		return "error " + m.Error.Message, nil
	}
	var answer struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	if err := json.Unmarshal(m.Result, &answer); err != nil {
		return "unreadable answer", nil
	}
	return strings.TrimSpace(answer.Outcome.Outcome + " " + answer.Outcome.OptionID), nil
}
