package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// toolTexts make the agent call frontend tools, one of which has no time.
var toolTexts = []string{`call ask {"n":1}`, `call-parallel 3 ask`, `call ask {"timeoutMs":20}`, `call add {"a":1,"b":2} ; echo done`}

// answerPrefix begins the request ids of submitted results; what the result is
// marked with follows.
const answerPrefix = "answer "

// secondAnswer is how rarely a tool call gets another answer at once, as from a
// second tab: the first one counts.
const secondAnswer = 4

// answerMark finds in what was said of a result which of the answers to which tool
// request it was.
var answerMark = regexp.MustCompile(`answered:([A-Za-z0-9_-]+)/([0-9]+)`)

// toolAnswers is what a client knows of the answers that it gave.
type toolAnswers struct {
	mu     sync.Mutex
	serial int
	acked  map[string]string // tool request → number of the answer that was acknowledged
}

// next numbers an answer, of a thread.
func (a *toolAnswers) next() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serial++
	return a.serial
}

// tell lets a client answer a tool call, or leave it alone.
func (cl *client) tell(c *conn, w *witness, e event) error {
	var call asked
	if err := json.Unmarshal(e.raw, &call); err != nil {
		return err
	}
	if strings.HasSuffix(call.RequestID, "0") {
		return nil // one in a few is never answered
	}
	for {
		serial := w.answers.next()
		mark := fmt.Sprintf("answered:%s/%d", call.RequestID, serial)
		payload, err := json.Marshal(object{"threadId": w.id, "requestId": call.RequestID, "result": object{"args": call.Args, "mark": mark}})
		if err != nil {
			return err
		}
		_, line, err := c.request(envelope{RequestID: answerPrefix + mark, Type: "submit_tool_result", Payload: payload})
		if err != nil {
			return err
		}
		_ = c.send(line) // a broken connection shows at the next read
		if serial%secondAnswer != 0 {
			return nil
		}
	}
}

// acknowledged takes the response to a submitted result.
func (a *toolAnswers) acknowledged(m message, t *tally) error {
	mark := answerMark.FindStringSubmatch(m.RequestID)
	if mark == nil || !m.OK {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.acked == nil {
		a.acked = map[string]string{}
	}
	if before, twice := a.acked[mark[1]]; twice {
		return fmt.Errorf("two answers to the tool request %s were acknowledged: number %s and number %s", mark[1], before, mark[2])
	}
	a.acked[mark[1]] = mark[2]
	t.answers.Add(1)
	return nil
}

// check holds the journal of a thread, and what its agent noted, to what is true
// of tool calls: each request is asked once and answered once at most, an
// acknowledged answer is there, and page and agent know of the same one.
func (a *toolAnswers) check(thread string, journal []event, noted map[string][]string) error {
	calls, results, told := map[string]int{}, map[string]int{}, map[string]string{}
	for _, e := range journal {
		var call asked
		if e.Type == "tool_call" || e.Type == "tool_result" {
			if err := json.Unmarshal(e.raw, &call); err != nil {
				return err
			}
		}
		id := call.RequestID
		switch e.Type {
		case "tool_call":
			calls[id]++
		case "tool_result":
			if results[id]++; calls[id] != 1 || results[id] != 1 {
				return fmt.Errorf("%s: the tool request %s was asked %d times and answered %d times", thread, id, calls[id], results[id])
			}
		case "assistant_message":
		default:
			continue
		}
		for _, mark := range answerMark.FindAllSubmatch(e.raw, -1) {
			if err := oneAnswer(told, string(mark[1]), string(mark[2])); err != nil {
				return fmt.Errorf("%s: %w", thread, err)
			}
		}
	}
	for id, n := range calls {
		if n != 1 {
			return fmt.Errorf("%s: the tool request %s was asked %d times", thread, id, n)
		}
		for _, number := range noted[id] {
			if err := oneAnswer(told, id, number); err != nil {
				return fmt.Errorf("%s: its agent: %w", thread, err)
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, number := range a.acked {
		if results[id] != 1 {
			return fmt.Errorf("%s: the acknowledged answer to %s is lost", thread, id)
		}
		if err := oneAnswer(told, id, number); err != nil {
			return fmt.Errorf("%s: what was acknowledged: %w", thread, err)
		}
	}
	return nil
}

// oneAnswer notes which answer a tool request got, and fails if it was another one
// before.
func oneAnswer(told map[string]string, id, number string) error {
	if before, ok := told[id]; ok && before != number {
		return fmt.Errorf("the tool request %s was answered with number %s and with number %s", id, before, number)
	}
	told[id] = number
	return nil
}

// crashFile is the target of all uploads of a thread, and crashFileUnit the number
// of bytes of which a version of it is made, again and again.
const (
	crashFile     = "file.bin"
	crashFileUnit = 16
	crashFileSize = 24 << 10 // units, more than one buffer
)

// versions is what a client knows of the file that it uploads to a thread.
type versions struct {
	acked int // last version that was acknowledged; 0 = none
	tried int // last version that was sent
}

func versionBytes(n int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%0*d", crashFileUnit, n), crashFileSize)
}

// upload sends the next version of a thread's file.
func (cl *client) upload(c *conn, w *witness) bool {
	if w.folder == "" {
		return true
	}
	var ticket uploadTicket
	err := c.call("create_asset_upload", object{
		"threadId": w.id, "filename": crashFile, "sizeBytes": crashFileUnit * crashFileSize, "targetPath": "/" + crashFile,
	}, &ticket)
	if err != nil {
		return isAnswer(err)
	}
	w.file.tried++
	req, err := http.NewRequest(http.MethodPut, ticket.URL, bytes.NewReader(versionBytes(w.file.tried)))
	if err != nil {
		cl.fail(err)
		return false
	}
	req.Header.Set("Authorization", "Bearer "+ticket.Token)
	res, err := transferClient.Do(req)
	if err != nil {
		return false // the daemon died; the version may be there or not
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err == nil && res.StatusCode == http.StatusCreated {
		w.file.acked = w.file.tried
		cl.tally.uploads.Add(1)
	}
	return true
}

// check looks at the file after a restart, when its thread is loaded: it is a
// whole version, not older than the one that was acknowledged, and nothing else is
// left.
func (v *versions) check(workspace string) error {
	if v.tried == 0 {
		return nil
	}
	folder := filepath.Join(workspace, ".pedelec-runtime", "assets")
	err := waitFor(orphanLimit, "the temporary file to be gone from "+folder, func() (bool, error) {
		left, err := filepath.Glob(filepath.Join(folder, ".pedelec-*"))
		return len(left) == 0, err
	})
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(folder, crashFile))
	if errors.Is(err, fs.ErrNotExist) {
		if v.acked != 0 {
			return fmt.Errorf("%s: version %d was acknowledged and is lost", folder, v.acked)
		}
		return nil
	}
	if err != nil {
		return err
	}
	for n := max(1, v.acked); n <= v.tried; n++ {
		if bytes.Equal(got, versionBytes(n)) {
			return nil
		}
	}
	return fmt.Errorf("%s: %d bytes that begin with %q; versions %d to %d are possible", folder, len(got), clip(got[:min(len(got), crashFileUnit)]), v.acked, v.tried)
}
