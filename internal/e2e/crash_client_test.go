package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// client puts load on the daemon until it dies: it asks for random things on
// threads of its own, and writes down what it was told.
type client struct {
	name    string
	kind    clientKind
	rng     *rand.Rand
	work    string
	crashes bool // it asks its agents to crash, too
	bias    bias // what it asks for more often
	threads []*witness
	retired []*witness // to be deleted
	nextOp  int
	heard   *atomic.Int64
	tally   *tally

	mu     sync.Mutex
	failed error // the first lie
}

// clientKind is how a client speaks to the daemon.
type clientKind int

const (
	asProgram clientKind = iota
	asWebProgram
	asPage // over a WebSocket, with an origin instead of the token
	clientKinds
)

// crashOrigin is the origin of the pages of the crash suite, which the settings
// allow.
const crashOrigin = "https://crash.example"

// newClients makes clients of all kinds.
func newClients(count int, seed uint64, work string, heard *atomic.Int64, t *tally) []*client {
	var all []*client
	for i := range count {
		all = append(all, &client{
			name: fmt.Sprintf("client%d", i), kind: clientKind(i % int(clientKinds)), rng: rand.New(rand.NewPCG(seed, uint64(i)+1)),
			work: work, heard: heard, tally: t,
		})
	}
	return all
}

// open connects in the client's way.
func (cl *client) open(info runtimeFile) (*conn, error) {
	switch cl.kind {
	case asWebProgram:
		return openWeb(info.HTTPEndpoint, info.Token)
	case asPage:
		return openPage(info.HTTPEndpoint, crashOrigin)
	}
	return open(info.Endpoint)
}

// life is the time of one daemon as its clients know it.
type life struct {
	info runtimeFile
	over chan struct{} // closed when the daemon is dead, or the clients shall stop
	once sync.Once
}

func newLife(info runtimeFile) *life { return &life{info: info, over: make(chan struct{})} }

func (l *life) end() { l.once.Do(func() { close(l.over) }) }

func (l *life) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

func (cl *client) fail(err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.failed == nil {
		cl.failed = err
	}
}

func (cl *client) lie() error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.failed
}

// run asks until the life is over.
func (cl *client) run(l *life) {
	asking, err := cl.open(l.info)
	if err != nil {
		return
	}
	defer asking.Close()
	var ears sync.WaitGroup
	defer ears.Wait()
	subscribe := make(chan *witness, threadsPerClient)
	defer close(subscribe)
	ears.Go(func() { cl.hear(l, subscribe) })
	for _, w := range cl.threads {
		subscribe <- w
	}
	for _, w := range cl.threads {
		if !cl.askAgain(asking, w) {
			return
		}
	}
	for cl.lie() == nil && !l.isOver() {
		if !cl.act(asking, l, subscribe) {
			return
		}
	}
}

// hear subscribes to threads and takes what comes, each on a connection of its
// own.
func (cl *client) hear(l *life, threads <-chan *witness) {
	var all sync.WaitGroup
	defer all.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for w := range threads {
		c, err := cl.open(l.info)
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
		e, err := cl.next(c, w, stop)
		if err != nil {
			cl.fail(err)
			return
		}
		if e == nil {
			return
		}
		cl.heard.Add(1)
		if err := cl.take(c, w, *e); err != nil {
			cl.fail(err)
			return
		}
	}
}

// next returns the next event, or nil when there will be none.
func (cl *client) next(c *conn, w *witness, stop <-chan struct{}) (*event, error) {
	for {
		if len(c.events) > 0 {
			e := c.events[0]
			c.events = c.events[1:]
			return &e, nil
		}
		select {
		case line, ok := <-c.lines:
			if !ok {
				return nil, nil
			}
			m, err := parseLine(line)
			if err != nil {
				return nil, err
			}
			if !m.isEvent() {
				if err := w.answers.acknowledged(m, cl.tally); err != nil {
					return nil, err
				}
				continue
			}
			e, err := parseEvent(m.Event)
			return &e, err
		case <-stop:
			return nil, nil
		}
	}
}

// take writes an event down and answers it, if it is a call of a tool.
func (cl *client) take(c *conn, w *witness, e event) error {
	switch e.Type {
	case "tool_call":
		if err := cl.tell(c, w, e); err != nil {
			return err
		}
	case "assistant_message":
		if op, ok := markOf(e.Text); ok && op != e.OperationID {
			return fmt.Errorf("%s: the answer to operation %s was told as one of %s: %s", w.id, op, e.OperationID, e.raw)
		}
	case "operation_completed":
		cl.tally.ended(codeOf(asError(e.Err)))
		select {
		case w.done <- e.OperationID:
		default:
		}
	}
	return w.told(e)
}

// operationMark stands before the id of the operation in the text of each turn, so
// that it is known of whatever agents and events have of it to which one it belongs.
const operationMark = "operation:"

// marked is a script that says at its end of which operation it is.
func marked(text, op string) string { return text + " ; echo " + operationMark + op }

func markOf(text string) (op string, ok bool) {
	_, op, ok = strings.Cut(text, operationMark)
	op, _, _ = strings.Cut(op, "\n")
	return op, ok
}

// workspaceOf is the folder that a client gives its n-th thread.
func (cl *client) workspaceOf(n int) string {
	return filepath.Join(cl.work, fmt.Sprintf("%s-%d", cl.name, n))
}

// tally counts what clients were told, of all rounds.
type tally struct {
	acks, answers, uploads, repeated atomic.Int64

	mu   sync.Mutex
	ends map[string]int // of operations, by code; "" = well
}

func (t *tally) ended(code string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends == nil {
		t.ends = map[string]int{}
	}
	t.ends[code]++
}

// outcomes tells how often operations ended with each code.
func (t *tally) outcomes() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.ends)
}
