package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// client puts load on the daemon until it dies: it asks for random things on
// threads of its own, and writes down what it was told.
type client struct {
	name    string
	rng     *rand.Rand
	work    string
	threads []*witness
	retired []*witness // to be deleted
	nextOp  int
	acks    *atomic.Int64
	heard   *atomic.Int64
	did     exchanged

	mu     sync.Mutex
	failed error          // the first lie
	ends   map[string]int // how operations ended, by code; "" = well
}

// Bounds of the load, so that a run of many rounds stays quick.
const (
	threadsPerClient = 3
	threadEvents     = 300         // a thread with more is deleted
	removeEvery      = 25          // any thread is deleted about every so many commands
	turnLimit        = time.Second // how long a client waits for its turn, when it waits
)

func (cl *client) fail(err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.failed == nil {
		cl.failed = err
	}
}

// ended counts an operation that was seen to end.
func (cl *client) ended(code string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.ends == nil {
		cl.ends = map[string]int{}
	}
	cl.ends[code]++
}

func (cl *client) lie() error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.failed
}

// run asks until a connection breaks.
func (cl *client) run(endpoint string) {
	asking, err := open(endpoint)
	if err != nil {
		return
	}
	defer asking.Close()
	var ears sync.WaitGroup
	defer ears.Wait()
	subscribe := make(chan *witness, threadsPerClient)
	defer close(subscribe)
	ears.Go(func() { cl.hear(endpoint, subscribe) })
	for _, w := range cl.threads {
		subscribe <- w
	}
	for cl.lie() == nil {
		if !cl.act(asking, subscribe) {
			return
		}
	}
}

// hear subscribes to threads and takes what comes, each on a connection of its
// own.
func (cl *client) hear(endpoint string, threads <-chan *witness) {
	var all sync.WaitGroup
	defer all.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for w := range threads {
		c, err := open(endpoint)
		if err != nil {
			continue // the daemon is gone
		}
		all.Go(func() {
			defer c.Close()
			cl.follow(c, w, stop)
		})
	}
}

func (cl *client) follow(c *conn, w *witness, stop <-chan struct{}) {
	payload := object{"threadId": w.id, "afterSeq": w.cursor()}
	if err := c.call("subscribe_thread", payload, nil); err != nil {
		return
	}
	for {
		var e event
		var err error
		if len(c.events) > 0 {
			e, c.events = c.events[0], c.events[1:]
		} else {
			select {
			case line, ok := <-c.lines:
				if !ok {
					return
				}
				m, err := parseLine(line)
				if err != nil {
					cl.fail(err)
					return
				}
				if !m.isEvent() {
					cl.acknowledged(w, m)
					continue
				}
				if e, err = parseEvent(m.Event); err != nil {
					cl.fail(err)
					return
				}
			case <-stop:
				return
			}
		}
		cl.heard.Add(1)
		if e.Type == "tool_call" {
			if err := cl.tell(c, w, e); err != nil {
				cl.fail(err)
				return
			}
		}
		if e.Type == "operation_completed" {
			cl.ended(codeOf(asError(e.Err)))
			select {
			case w.done <- e.OperationID:
			default:
			}
		}
		if err = w.told(e); err != nil {
			cl.fail(err)
			return
		}
	}
}

// hanging is a text whose turn never ends by itself.
const hanging = "hang"

// texts are what clients ask agents for.
var texts = []string{
	"echo hello", "echo hello", "message one | two", "stream 20 every 2ms", "stream 5 every 20ms", hanging, "usage 7", "fail broken", "detached",
}

// crashEvery is how rarely the agent is asked to crash: after some crashes the
// daemon refuses to start it for a while.
const crashEvery = 100

// act does one random thing. It returns false when the connection broke.
func (cl *client) act(c *conn, subscribe chan<- *witness) bool {
	if len(cl.threads) < threadsPerClient {
		return cl.create(c, subscribe)
	}
	i := cl.rng.IntN(len(cl.threads))
	w := cl.threads[i]
	if w.size() > threadEvents || cl.rng.IntN(removeEvery) == 0 {
		cl.threads = append(cl.threads[:i], cl.threads[i+1:]...)
		return cl.remove(c, w)
	}
	switch n := cl.rng.IntN(100); {
	case n < 40:
		all := texts
		if cl.rng.IntN(3) == 0 {
			all = toolTexts
		}
		text := all[cl.rng.IntN(len(all))]
		if cl.rng.IntN(crashEvery) == 0 {
			text = "crash"
		}
		return cl.admit(c, w, "send_text", text)
	case n < 50:
		return cl.admit(c, w, "prepare_thread", "")
	case n < 70:
		return alive(c.call("cancel_operation", object{"threadId": w.id}, nil))
	case n < 78:
		err := c.call("end_thread", object{"threadId": w.id}, nil)
		w.end(err == nil)
		cl.acks.Add(1)
		return alive(err)
	case n < 90:
		w.end(false)
		return alive(c.call("resume_thread", object{"threadId": w.id}, nil))
	case n < 96:
		return cl.upload(c, w)
	default:
		return alive(c.call("thread_snapshot", object{"threadId": w.id}, nil))
	}
}

// alive reports whether an answer came, whatever it says.
func alive(err error) bool { return lost(err) != errLost }

func (cl *client) create(c *conn, subscribe chan<- *witness) bool {
	cl.nextOp++
	payload := object{"provider": "opencode", "skills": demoTools}
	workspace := filepath.Join(cl.work, fmt.Sprintf("%s-%d", cl.name, cl.nextOp))
	managed := cl.rng.IntN(5) == 0
	if !managed {
		payload["workspace"] = object{"path": workspace}
	}
	var created struct {
		ThreadID string `json:"threadId"`
	}
	if err := c.call("create_thread", payload, &created); err != nil {
		return alive(err)
	}
	cl.acks.Add(1)
	w := newWitness(created.ThreadID, managed)
	if !managed {
		w.file.folder = filepath.Join(workspace, ".pedelec-runtime", "assets")
	}
	cl.threads = append(cl.threads, w)
	subscribe <- w
	return true
}

func (cl *client) admit(c *conn, w *witness, kind, text string) bool {
	cl.nextOp++
	op := fmt.Sprintf("%s-%d", cl.name, cl.nextOp)
	payload := object{"threadId": w.id, "operationId": op}
	if kind == "send_text" {
		payload["message"] = text
	}
	err := c.call(kind, payload, nil)
	switch {
	case err == nil:
		w.end(false)
		w.admitted(op)
		cl.acks.Add(1)
	case alive(err):
		w.refuse(op, codeOf(err))
	default:
		w.end(false) // nobody knows
		return false
	}
	if err != nil {
		return true
	}
	if cl.rng.IntN(4) == 0 && !cl.repeat(c, kind, op, payload) {
		return false
	}
	if cl.rng.IntN(3) > 0 && text != hanging {
		cl.await(w, op)
	}
	return true
}

// await waits until an operation was seen to end, but not for long.
func (cl *client) await(w *witness, op string) {
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
		}
	}
}

// repeat sends an admitted operation again: the same answer, no second effect.
func (cl *client) repeat(c *conn, kind, op string, payload object) bool {
	var answer struct {
		OperationID string `json:"operationId"`
		Replayed    bool   `json:"replayed"`
	}
	err := c.call(kind, payload, &answer)
	if err == nil && (answer.OperationID != op || !answer.Replayed) {
		cl.fail(fmt.Errorf("%s: the repeated operation %s is answered with %+v", payload["threadId"], op, answer))
	}
	if err != nil && alive(err) {
		cl.fail(fmt.Errorf("%s: the repeated operation %s is refused: %w", payload["threadId"], op, err))
	}
	return alive(err)
}

// remove ends and deletes a thread.
func (cl *client) remove(c *conn, w *witness) bool {
	if err := c.call("end_thread", object{"threadId": w.id}, nil); err != nil {
		cl.retired = append(cl.retired, w)
		return alive(err)
	}
	w.end(true)
	w.gone = true
	err := c.call("delete_thread", object{"threadId": w.id}, nil)
	return alive(err)
}

// operate does what an operator does once in a while: a backup, and the settings
// written as they are.
func operate(d *daemon, home, work string) {
	c, err := open(d.info.Endpoint)
	if err != nil {
		return
	}
	defer c.Close()
	c.token = d.info.Token
	if !alive(c.call("list_providers", nil, nil)) { // waits until it is known what is there
		return
	}
	settings, err := os.ReadFile(filepath.Join(home, "settings.json"))
	if err != nil {
		return
	}
	path := filepath.Join(work, fmt.Sprintf("backup-%d", d.cmd.Process.Pid))
	if !alive(c.call("backup", object{"path": path}, nil)) {
		return
	}
	_ = os.Remove(path)                                          // it is not there if it was refused
	_ = c.call("update_settings", jsontext.Value(settings), nil) // a death in it is what the round is about
}
