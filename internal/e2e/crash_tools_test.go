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
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
)

// toolTexts make the agent call frontend tools, one of which has no time.
var toolTexts = []string{`call ask {"n":1}`, `call-parallel 3 ask`, `call ask {"timeoutMs":20}`, `call add {"a":1,"b":2} ; echo done`}

// answerPrefix begins the request ids of submitted results; the tool request's own
// id follows.
const answerPrefix = "answer "

// toolAnswers is what a client knows of the answers that it gave.
type toolAnswers struct {
	acked map[string]bool // tool requests whose result was acknowledged
}

// exchanged counts what a client was acknowledged with pages' business.
type exchanged struct{ answers, uploads atomic.Int64 }

// exchanged tells what all clients were acknowledged.
func (r *crash) exchanged() string {
	var answers, uploads int64
	for _, cl := range r.clients {
		answers += cl.did.answers.Load()
		uploads += cl.did.uploads.Load()
	}
	return fmt.Sprintf("%d answers of tools and %d uploads", answers, uploads)
}

// tell lets a client answer a tool call, or leave it alone.
func (cl *client) tell(c *conn, w *witness, e event) error {
	var a asked
	if err := json.Unmarshal(e.raw, &a); err != nil {
		return err
	}
	if strings.HasSuffix(a.RequestID, "0") {
		return nil // one in a few is never answered
	}
	payload, err := json.Marshal(object{"threadId": w.id, "requestId": a.RequestID, "result": object{"args": a.Args}})
	if err != nil {
		return err
	}
	_, line, err := c.request(envelope{RequestID: answerPrefix + a.RequestID, Type: "submit_tool_result", Payload: payload})
	if err != nil {
		return err
	}
	_ = c.send(line) // a broken connection shows at the next read
	return nil
}

// acknowledged takes the response to a submitted result.
func (cl *client) acknowledged(w *witness, m message) {
	id, ours := strings.CutPrefix(m.RequestID, answerPrefix)
	if !ours || !m.OK {
		return
	}
	cl.did.answers.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answers.acked == nil {
		w.answers.acked = map[string]bool{}
	}
	w.answers.acked[id] = true
}

// check holds the journal of a thread to what is true of tool calls: each request
// is asked once, answered once at most, and an acknowledged answer is there.
func (a *toolAnswers) check(thread string, journal []event) error {
	calls, results := map[string]int{}, map[string]int{}
	for _, e := range journal {
		if e.Type != "tool_call" && e.Type != "tool_result" {
			continue
		}
		var told asked
		if err := json.Unmarshal(e.raw, &told); err != nil {
			return err
		}
		id := told.RequestID
		if e.Type == "tool_call" {
			calls[id]++
			continue
		}
		if results[id]++; calls[id] != 1 || results[id] != 1 {
			return fmt.Errorf("%s: the tool request %s was asked %d times and answered %d times", thread, id, calls[id], results[id])
		}
	}
	for id, n := range calls {
		if n != 1 {
			return fmt.Errorf("%s: the tool request %s was asked %d times", thread, id, n)
		}
	}
	for id := range a.acked {
		if results[id] != 1 {
			return fmt.Errorf("%s: the acknowledged answer to %s is lost", thread, id)
		}
	}
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
	folder string // of the thread's assets; "" = it is not looked at
	acked  int    // last version that was acknowledged; 0 = none
	tried  int    // last version that was sent
}

func versionBytes(n int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%0*d", crashFileUnit, n), crashFileSize)
}

// upload sends the next version of a thread's file.
func (cl *client) upload(c *conn, w *witness) bool {
	if w.file.folder == "" {
		return true
	}
	var ticket uploadTicket
	err := c.call("create_asset_upload", object{
		"threadId": w.id, "filename": crashFile, "sizeBytes": crashFileUnit * crashFileSize, "targetPath": "/" + crashFile,
	}, &ticket)
	if err != nil {
		return alive(err)
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
		cl.did.uploads.Add(1)
	}
	return true
}

// check looks at the file after a restart, when its thread is loaded: it is a
// whole version, not older than the one that was acknowledged, and nothing else is
// left.
func (v *versions) check() error {
	if v.folder == "" || v.tried == 0 {
		return nil
	}
	err := waitFor(orphanLimit, "the temporary file to be gone from "+v.folder, func() (bool, error) {
		left, err := filepath.Glob(filepath.Join(v.folder, ".pedelec-*"))
		return len(left) == 0, err
	})
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(v.folder, crashFile))
	if errors.Is(err, fs.ErrNotExist) {
		if v.acked != 0 {
			return fmt.Errorf("%s: version %d was acknowledged and is lost", v.folder, v.acked)
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
	return fmt.Errorf("%s: %d bytes that begin with %q; versions %d to %d are possible", v.folder, len(got), clip(got[:min(len(got), crashFileUnit)]), v.acked, v.tried)
}
