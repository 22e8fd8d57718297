package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of the load, so that a run of many rounds stays quick.
const (
	threadsPerClient = 3
	threadEvents     = 300         // a thread with more is deleted
	removeEvery      = 25          // any thread is deleted about every so many commands
	turnLimit        = time.Second // how long a client waits for its turn, when it waits
	fewEvents        = 30          // what clients hear before a bias or an operator has had its say
)

// bias is what clients ask for more often than usual.
type bias int

const (
	noBias bias = iota
	toUpload
	toCreate
)

// biasPercent is how often a client gives in to its bias.
const biasPercent = 40

// hanging is a text whose turn never ends by itself.
const hanging = "hang"

// texts are what clients ask agents for.
var texts = []string{
	"echo hello", "echo hello", "message one | two", "stream 20 every 2ms", "stream 5 every 20ms", hanging, "usage 7", "fail broken", "detached",
}

// crashEvery is how rarely a client asks its agent to crash: after some crashes the
// daemon refuses to start it for a while.
const crashEvery = 100

// act does one random thing. It returns false when the connection broke.
func (cl *client) act(c *conn, l *life, subscribe chan<- *witness) bool {
	if len(cl.threads) < threadsPerClient {
		return cl.create(c, subscribe)
	}
	i := cl.rng.IntN(len(cl.threads))
	w := cl.threads[i]
	if w.size() > threadEvents || cl.rng.IntN(removeEvery) == 0 || cl.biased(toCreate) {
		cl.threads = append(cl.threads[:i], cl.threads[i+1:]...)
		return cl.remove(c, w)
	}
	if cl.biased(toUpload) {
		return cl.upload(c, w)
	}
	switch n := cl.rng.IntN(100); {
	case n < 40:
		return cl.admit(c, l, w, "send_text", cl.text())
	case n < 50:
		return cl.admit(c, l, w, "prepare_thread", "")
	case n < 70:
		return isAnswer(c.call("cancel_operation", object{"threadId": w.id}, nil))
	case n < 78:
		err := c.call("end_thread", object{"threadId": w.id}, nil)
		w.end(err == nil)
		cl.tally.acks.Add(1)
		return isAnswer(err)
	case n < 90:
		w.end(false)
		return isAnswer(c.call("resume_thread", object{"threadId": w.id}, nil))
	case n < 96:
		return cl.upload(c, w)
	default:
		return isAnswer(c.call("thread_snapshot", object{"threadId": w.id}, nil))
	}
}

func (cl *client) biased(to bias) bool { return cl.bias == to && cl.rng.IntN(100) < biasPercent }

func (cl *client) text() string {
	switch {
	case cl.crashes && cl.rng.IntN(crashEvery) == 0:
		return "crash"
	case cl.rng.IntN(3) == 0:
		return toolTexts[cl.rng.IntN(len(toolTexts))]
	}
	return texts[cl.rng.IntN(len(texts))]
}

// isAnswer reports whether an answer came, whatever it says.
func isAnswer(err error) bool { return lost(err) != errLost }

func (cl *client) create(c *conn, subscribe chan<- *witness) bool {
	cl.nextOp++
	payload := object{"provider": crashProviders[cl.rng.IntN(len(crashProviders))], "skills": demoTools}
	workspace := cl.workspaceOf(cl.nextOp)
	managed := cl.rng.IntN(5) == 0
	if !managed {
		payload["workspace"] = object{"path": workspace}
	}
	var created struct {
		ThreadID string `json:"threadId"`
	}
	if err := c.call("create_thread", payload, &created); err != nil {
		return isAnswer(err)
	}
	cl.tally.acks.Add(1)
	w := newWitness(created.ThreadID, managed)
	if !managed {
		w.folder = workspace
	}
	cl.threads = append(cl.threads, w)
	subscribe <- w
	return true
}

// crashProviders are those that the scripted agent plays.
var crashProviders = []string{"opencode", "opencode", "cursor"}

func (cl *client) admit(c *conn, l *life, w *witness, kind, text string) bool {
	cl.nextOp++
	q := question{kind: kind, op: fmt.Sprintf("%s-%d", cl.name, cl.nextOp)}
	if kind == "send_text" {
		q.message = marked(text, q.op)
	}
	answered, admitted := cl.ask(c, w, q)
	if !answered || !admitted {
		return answered
	}
	if cl.rng.IntN(4) == 0 && !cl.repeat(c, w, q) {
		return false
	}
	if cl.rng.IntN(3) > 0 && text != hanging {
		cl.await(l, w, q.op)
	}
	return true
}

// question is a request that admits an operation.
type question struct {
	kind, op string
	message  string // "" = a preparation
}

func (q question) payload(w *witness) object {
	payload := object{"threadId": w.id, "operationId": q.op}
	if q.message != "" {
		payload["message"] = q.message
	}
	return payload
}

// ask puts a question and notes the answer. One that gets none is open: it is put
// again to the next daemon.
func (cl *client) ask(c *conn, w *witness, q question) (answered, admitted bool) {
	w.asked(q)
	err := c.call(q.kind, q.payload(w), nil)
	switch {
	case err == nil:
		w.end(false)
		w.admitted(q.op)
		cl.tally.acks.Add(1)
		return true, true
	case isAnswer(err):
		w.refuse(q.op, codeOf(err))
		return true, false
	}
	w.end(false) // nobody knows
	w.open = append(w.open, q)
	return false, false
}

// askAgain puts the open questions of a thread again. Whatever became of them, each
// is carried out once at most.
func (cl *client) askAgain(c *conn, w *witness) bool {
	open := w.open
	w.open = nil
	for i, q := range open {
		if answered, _ := cl.ask(c, w, q); !answered {
			w.open = append(w.open, open[i+1:]...)
			return false
		}
		cl.tally.repeated.Add(1)
	}
	return true
}

// await waits until an operation was seen to end, but not for long.
func (cl *client) await(l *life, w *witness, op string) {
	timer := time.NewTimer(turnLimit)
	defer timer.Stop()
	for {
		select {
		case done := <-w.done:
			if done == op {
				return
			}
		case <-timer.C:
			return
		case <-l.over:
			return
		}
	}
}

// repeat puts an admitted question again: the same answer, no second effect.
func (cl *client) repeat(c *conn, w *witness, q question) bool {
	var answer struct {
		OperationID string `json:"operationId"`
		Replayed    bool   `json:"replayed"`
	}
	err := c.call(q.kind, q.payload(w), &answer)
	if err == nil && (answer.OperationID != q.op || !answer.Replayed) {
		cl.fail(fmt.Errorf("%s: the repeated operation %s is answered with %+v", w.id, q.op, answer))
	}
	// A daemon that was told to leave refuses everything, and so says nothing of it.
	if err != nil && isAnswer(err) && codeOf(err) != "CORE_RUNTIME_UNAVAILABLE" {
		cl.fail(fmt.Errorf("%s: the repeated operation %s is refused: %w", w.id, q.op, err))
	}
	return isAnswer(err)
}

// remove ends and deletes a thread, and then the folder that the client gave it.
func (cl *client) remove(c *conn, w *witness) bool {
	if err := c.call("end_thread", object{"threadId": w.id}, nil); err != nil {
		cl.retired = append(cl.retired, w)
		return isAnswer(err)
	}
	w.end(true)
	w.gone = true
	err := c.call("delete_thread", object{"threadId": w.id}, nil)
	if err == nil {
		w.deleted = true
		cl.retired = append(cl.retired, w)
	}
	if err == nil && w.folder != "" {
		if err := os.RemoveAll(w.folder); err != nil {
			cl.fail(err)
		}
	}
	return isAnswer(err)
}

// operate does what an operator does once in a while: a backup, and the settings
// written as they are.
func operate(info runtimeFile, home, work string) {
	c, err := open(info.Endpoint)
	if err != nil {
		return
	}
	defer c.Close()
	c.token = info.Token
	path := filepath.Join(work, fmt.Sprintf("backup-%d", info.PID))
	if !isAnswer(c.call("backup", object{"path": path}, nil)) {
		return
	}
	_ = os.Remove(path) // it is not there if it was refused
	settings, err := os.ReadFile(filepath.Join(home, "settings.json"))
	if err != nil {
		return
	}
	_ = c.call("update_settings", jsontext.Value(settings), nil) // a death in it is what the round is about
}
