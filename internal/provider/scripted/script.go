package scripted

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of what a script may ask for, so that a slip of a finger does no harm.
const (
	maxCount = 100_000_000
	maxBytes = 256 << 20
	maxDelay = time.Hour
)

// step does one command in a turn. A nil error goes on to the next.
type step func(*turn) error

// command is one word of the language. parse returns nil when the rest of the
// line is not what the command takes; the line is then ordinary text.
type command struct {
	name  string
	parse func(rest string) step
}

// commands is the whole language; the package documentation explains each. It
// is filled in init since some commands lead back to the parser.
var commands []command

func init() {
	commands = []command{
		{"echo", text(func(t *turn, s string) error { return t.message(s) })},
		{"message", text(sayMessages)},
		{"stream", parseStream},
		{"wait", duration(func(t *turn, d time.Duration) error { return pause(t.ctx, d) })},
		{"hang", bare(func(t *turn) error { <-t.ctx.Done(); return errCancelled })},
		{"hang-hard", bare(func(t *turn) error { <-t.a.leave.Done(); return errLeft })},
		{"slow-cancel", duration(slowCancel)},
		{"fail", text(func(_ *turn, s string) error {
			return &rpcError{Code: codeInternal, Message: s, Data: object{"service": "scripted"}}
		})},
		{"refuse", bare(func(*turn) error { return errRefused })},
		{"crash", bare(func(t *turn) error { t.a.out.flush(t.ctx); t.a.exits.crash(); return errLeft })},
		{"exit", number(0, 255, func(t *turn, n int) error { return t.exit(n) })},
		{"ignore-term", bare(func(t *turn) error { t.a.stubborn.Store(true); ignoreTermination(); return nil })},
		{"grandchild", bare(func(t *turn) error { return t.startTool("grandchild", sameGroup) })},
		{"detached", bare(func(t *turn) error { return t.startTool("detached", ownSession) })},
		{"stderr", number(1, maxBytes, floodStderr)},
		{"bigline", number(1, maxBytes, func(t *turn, n int) error { return t.stray(bytes.Repeat([]byte{'x'}, n)) })},
		{"banner", bare(func(t *turn) error { return t.stray([]byte("*** a new version of the scripted agent is out ***")) })},
		{"halfline", bare(halfLine)},
		{"split", bare(splitCodePoints)},
		{"usage", number(1, maxCount, reportUsage)},
		{"tool", text(showTool)},
		{"call", call(func(t *turn, name string, args jsontext.Value) error { return t.call(name, args, announced) })},
		{"call-silent", call(func(t *turn, name string, args jsontext.Value) error { return t.call(name, args, silent) })},
		{"call-parallel", parseParallel},
		{"cli", call((*turn).callByCommand)},
		{"cli-spec", parseSpec},
		{"permission", text(askToEdit)},
		{"permission-shell", text(askToRun)},
		{"write", parseWrite},
		{"whoami", bare(whoAmI)},
		{"env", text(sayVariable)},
		{"forget", bare(func(t *turn) error { return t.a.store.forget(t.s.id) })},
		{"prepare-wrong", bare(nextPreparation(prepareWrong))},
		{"prepare-fail", bare(nextPreparation(prepareFail))},
		{"prepare-hang", bare(nextPreparation(prepareHang))},
	}
}

// parseScript returns the steps of a prompt; ok is false when its first line is
// no command.
func parseScript(prompt string) (steps []step, ok bool) {
	if parseLine(firstLine(prompt)) == nil {
		return nil, false
	}
	for line := range strings.Lines(strings.ReplaceAll(prompt, separator, "\n")) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		s := parseLine(line)
		if s == nil {
			s = func(t *turn) error { return t.message(line) }
		}
		steps = append(steps, s)
	}
	return steps, true
}

// separator stands between commands on one line.
const separator = " ; "

// firstLine returns the first line that is not blank. Most prompts are no
// script, and then nothing more of them is looked at.
func firstLine(prompt string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	line, _, _ = strings.Cut(line, separator)
	return strings.TrimSpace(line)
}

func parseLine(line string) step {
	word, rest, _ := strings.Cut(line, " ")
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == word })
	if i < 0 {
		return nil
	}
	return commands[i].parse(strings.TrimSpace(rest))
}

// bare is a command without arguments.
func bare(do step) func(string) step {
	return func(rest string) step {
		if rest != "" {
			return nil
		}
		return do
	}
}

func text(do func(*turn, string) error) func(string) step {
	return func(rest string) step {
		if rest == "" {
			return nil
		}
		return func(t *turn) error { return do(t, rest) }
	}
}

func number(low, high int, do func(*turn, int) error) func(string) step {
	return func(rest string) step {
		n, err := strconv.Atoi(rest)
		if err != nil || n < low || n > high {
			return nil
		}
		return func(t *turn) error { return do(t, n) }
	}
}

func duration(do func(*turn, time.Duration) error) func(string) step {
	return func(rest string) step {
		d, ok := parseDelay(rest)
		if !ok {
			return nil
		}
		return func(t *turn) error { return do(t, d) }
	}
}

func parseDelay(s string) (time.Duration, bool) {
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0 && d <= maxDelay
}

// call is a command that takes the name of a tool and a JSON object.
func call(do func(t *turn, name string, args jsontext.Value) error) func(string) step {
	return func(rest string) step {
		name, args, ok := cutCall(rest)
		if !ok {
			return nil
		}
		return func(t *turn) error { return do(t, name, args) }
	}
}

func cutCall(rest string) (name string, args jsontext.Value, ok bool) {
	name, text, _ := strings.Cut(rest, " ")
	args = jsontext.Value(strings.TrimSpace(text))
	return name, args, args.Kind() == '{' && args.IsValid()
}

// parseParallel reads N TOOL [JSON].
func parseParallel(rest string) step {
	const maxParallel = 1000
	number, rest, _ := strings.Cut(rest, " ")
	count, err := strconv.Atoi(number)
	if err != nil || count < 1 || count > maxParallel {
		return nil
	}
	if name, args, ok := cutCall(rest); ok {
		return func(t *turn) error {
			return t.callInParallel(count, name, func(int) jsontext.Value { return args })
		}
	}
	if rest == "" || strings.Contains(rest, " ") {
		return nil
	}
	return func(t *turn) error {
		return t.callInParallel(count, rest, func(i int) jsontext.Value { return fmt.Appendf(nil, `{"n":%d}`, i+1) })
	}
}

func parseSpec(rest string) step {
	if rest == "" || strings.Contains(rest, " ") {
		return nil
	}
	return func(t *turn) error { return t.readSpec(rest) }
}

func (t *turn) call(name string, args jsontext.Value, how visibility) error {
	said, err := t.callTool(t.newCall(name, args), how)
	if err != nil {
		return err
	}
	return t.message(said)
}

func sayMessages(t *turn, s string) error {
	for part := range strings.SplitSeq(s, "|") {
		if err := t.message(strings.TrimSpace(part)); err != nil {
			return err
		}
	}
	return nil
}

// parseStream reads N [every D] [of B].
func parseStream(rest string) step {
	words := strings.Fields(rest)
	if len(words)%2 != 1 {
		return nil
	}
	count, err := strconv.Atoi(words[0])
	if err != nil || count < 1 || count > maxCount {
		return nil
	}
	var every time.Duration
	var size int
	for i := 1; i < len(words); i += 2 {
		switch words[i] {
		case "every":
			d, ok := parseDelay(words[i+1])
			if !ok {
				return nil
			}
			every = d
		case "of":
			n, err := strconv.Atoi(words[i+1])
			if err != nil || n < 1 || n > maxBytes {
				return nil
			}
			size = n
		default:
			return nil
		}
	}
	return func(t *turn) error { return t.stream(count, every, size) }
}

func (t *turn) stream(count int, every time.Duration, size int) error {
	t.newMessage()
	for i := range count {
		chunk := strconv.Itoa(i+1) + " "
		if pad := size - len(chunk); pad > 0 {
			chunk = strings.Repeat(".", pad) + chunk
		}
		if err := t.say(chunk); err != nil {
			return err
		}
		if every > 0 && i+1 < count {
			if err := pause(t.ctx, every); err != nil {
				return err
			}
		}
	}
	return nil
}

func slowCancel(t *turn, d time.Duration) error {
	<-t.ctx.Done()
	_ = pause(t.a.leave, d)
	return errCancelled
}

// exit leaves the process with what was said so far written.
func (t *turn) exit(status int) error {
	t.a.out.flush(t.ctx)
	t.a.exits.status(status)
	return errLeft
}

// stray writes a line that is no frame.
func (t *turn) stray(line []byte) error {
	t.a.out.send(t.ctx, append(line, '\n'))
	return nil
}

func floodStderr(t *turn, n int) error {
	line := []byte("scripted agent: this line is here to fill standard error.......\n") // 64 bytes
	for n > 0 {
		part := line[max(0, len(line)-n):]
		if _, err := t.a.stderr.Write(part); err != nil {
			return err
		}
		n -= len(part)
	}
	return nil
}

func halfLine(t *turn) error {
	t.newMessage()
	frame := t.frame("this frame never ends")
	t.a.out.send(t.ctx, frame[:len(frame)/2])
	return t.exit(exitFailed)
}

// splitCodePoints writes a frame in several writes that end inside code points.
func splitCodePoints(t *turn) error {
	const text = "Grüße aus 東京 🚲"
	t.newMessage()
	t.said.WriteString(text)
	rest := slices.Clone(t.frame(text))
	for i := 1; i < len(rest); i++ {
		if utf8.RuneStart(rest[i]) {
			continue
		}
		t.a.out.send(t.ctx, rest[:i])
		t.a.out.flush(t.ctx)
		rest, i = rest[i:], 0
	}
	t.a.out.send(t.ctx, rest)
	return nil
}

func reportUsage(t *turn, n int) error {
	t.usage = n
	t.a.update(t.s.id, object{"sessionUpdate": "usage_update", "used": n, "size": maxCount})
	return nil
}

func showTool(t *turn, title string) error {
	id := fmt.Sprintf("call_%d_%d", t.number, t.messages)
	t.a.update(t.s.id, object{"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": "other", "status": "pending"})
	t.a.update(t.s.id, object{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed"})
	return nil
}

func askToEdit(t *turn, path string) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.s.cwd, path)
	}
	answer, err := t.permission(object{
		"title": "Edit " + path, "kind": "edit", "locations": []object{{"path": path}}, "rawInput": object{"filepath": path},
	})
	if err != nil {
		return err
	}
	return t.message("permission " + answer)
}

func askToRun(t *turn, line string) error {
	answer, err := t.permission(object{"title": line, "kind": "execute", "rawInput": object{"command": line}})
	if err != nil {
		return err
	}
	return t.message("permission " + answer)
}

func parseWrite(rest string) step {
	path, content, ok := strings.Cut(rest, " ")
	if !ok || !filepath.IsLocal(path) {
		return nil
	}
	return func(t *turn) error {
		target := filepath.Join(t.s.cwd, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(content), 0o666); err != nil {
			return err
		}
		return t.message("wrote " + path)
	}
}

func whoAmI(t *turn) error {
	t.a.mu.Lock()
	model, instructed := t.s.model, t.s.instructed
	t.a.mu.Unlock()
	return t.message(fmt.Sprintf("session=%s turn=%d instructed=%t model=%s pid=%d cwd=%s", t.s.id, t.number, instructed, model, os.Getpid(), t.s.cwd))
}

func sayVariable(t *turn, name string) error {
	if slices.ContainsFunc(t.a.env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
		return t.message(name + "=" + lookup(t.a.env, name))
	}
	return t.message(name + " is not set")
}

func nextPreparation(mode string) step {
	return func(t *turn) error {
		t.a.mu.Lock()
		t.s.prepare = mode
		t.a.mu.Unlock()
		if err := t.a.store.append(t.s.id, record{Kind: recordPrepare, Text: mode}); err != nil {
			return err
		}
		return t.message("the next preparation: " + mode)
	}
}
