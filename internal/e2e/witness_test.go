package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// witness keeps what clients were told of one thread, over all crashes, and finds
// what is not true any more.
type witness struct {
	id      string
	managed bool        // ends with the daemon that made it
	done    chan string // operations that were seen to end; what nobody waits for is dropped
	folder  string      // its workspace, if the client chose it
	file    versions    // of what was uploaded; used by the thread's client alone, as is
	open    []question  // what got no answer

	answers toolAnswers

	mu      sync.Mutex
	turns   map[string]bool   // operations that were ever asked for; true = a preparation
	acked   []string          // operations whose admission was acknowledged, oldest first
	refused map[string]string // operations that were refused, and why
	ended   bool              // the end was acknowledged and nothing was asked for since
	gone    bool              // a delete was asked for: it may exist or not
	deleted bool              // the delete was acknowledged
	durable map[uint64]string // what each number was
	deltas  map[uint64]string // likewise, for text that is not stored
	latest  uint64
}

func newWitness(id string, managed bool) *witness {
	return &witness{id: id, managed: managed, done: make(chan string, 64), turns: map[string]bool{}, refused: map[string]string{}, durable: map[uint64]string{}, deltas: map[uint64]string{}}
}

// told takes an event that a client got.
func (w *witness) told(e event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest = max(w.latest, e.Seq)
	what, err := essence(e.raw)
	if err != nil {
		return err
	}
	mine, others := w.durable, w.deltas
	if e.Type == "assistant_delta" {
		mine, others = w.deltas, w.durable
	}
	if before, ok := mine[e.Seq]; ok && before != what {
		return fmt.Errorf("%s: number %d was %s and is %s", w.id, e.Seq, before, what)
	}
	if before, ok := others[e.Seq]; ok {
		return fmt.Errorf("%s: number %d was %s and is %s", w.id, e.Seq, before, what)
	}
	mine[e.Seq] = what
	return nil
}

// essence is an event without what only read_events adds, in a canonical form.
func essence(raw jsontext.Value) (string, error) {
	var m map[string]jsontext.Value
	if err := json.Unmarshal(raw, &m); err != nil {
		return "", err
	}
	delete(m, "message")
	delete(m, "messageTruncated")
	b, err := json.Marshal(m, json.Deterministic(true))
	return string(b), err
}

// asked takes an operation that is about to be asked for.
func (w *witness) asked(q question) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns[q.op] = q.message == ""
}

// admitted takes an acknowledged operation.
func (w *witness) admitted(op string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = append(w.acked, op)
}

func (w *witness) refuse(op, code string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[op] = code
}

// end notes whether the thread must be ended now.
func (w *witness) end(acknowledged bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = acknowledged
}

func (w *witness) cursor() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// size is how much there is to check.
func (w *witness) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.durable)
}

// errLost is what verify returns when the connection broke: the daemon died again.
var errLost = errors.New("the daemon died while it was asked")

func lost(err error) error {
	var w *wireError
	if err == nil || errors.As(err, &w) {
		return err
	}
	return errLost
}

// verify asks the daemon about the thread and compares all that was told.
// restarted is true when another daemon made it.
func (w *witness) verify(c *conn, rng *rand.Rand, notes *agentNotes, restarted bool) error {
	var s snapshot
	err := c.call("thread_snapshot", object{"threadId": w.id}, &s)
	if w.deleted && err == nil {
		return fmt.Errorf("%s: its delete was acknowledged, and it is there", w.id)
	}
	if codeOf(err) == "THREAD_NOT_FOUND" {
		if w.gone {
			return nil
		}
		return fmt.Errorf("%s: an acknowledged thread is lost", w.id)
	}
	if err != nil {
		return lost(err)
	}
	journal, err := w.journal(c, 0)
	if err != nil {
		return err
	}
	if !restarted { // turns may go on, so agents are asked after the daemon
		if err := notes.catchUp(); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case restarted && (s.Status == "running" || s.Status == "stopping" || s.Active != nil):
		return fmt.Errorf("%s: still %s after the restart", w.id, s.Status)
	case w.ended && s.Status != "ended":
		return fmt.Errorf("%s: its end was acknowledged, it is %s", w.id, s.Status)
	case w.managed && restarted && s.Status != "ended":
		return fmt.Errorf("%s: on a workspace of an earlier daemon and %s", w.id, s.Status)
	case s.LatestSeq < w.latest:
		return fmt.Errorf("%s: the latest number fell from %d to %d", w.id, w.latest, s.LatestSeq)
	}
	if err := w.compare(journal); err != nil {
		return err
	}
	if err := w.handed(journal, notes); err != nil {
		return err
	}
	if err := w.answers.check(w.id, journal, notes.answers); err != nil {
		return err
	}
	if restarted && w.folder != "" {
		if err := w.file.check(w.folder); err != nil {
			return err
		}
	}
	return w.replay(c, rng, journal)
}

// journal reads the durable events behind a number.
func (w *witness) journal(c *conn, after uint64) ([]event, error) {
	var all []event
	for {
		var page struct {
			Events    []jsontext.Value `json:"events"`
			NextSeq   uint64           `json:"nextSeq"`
			Truncated bool             `json:"truncated"`
		}
		err := c.call("read_events", object{"threadId": w.id, "afterSeq": after, "limit": 1000}, &page)
		if err != nil {
			return nil, lost(err)
		}
		if page.Truncated {
			return nil, fmt.Errorf("%s: the journal is trimmed, far below its limit", w.id)
		}
		if len(page.Events) == 0 {
			return all, nil
		}
		for _, raw := range page.Events {
			e, err := parseEvent(raw)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		after = page.NextSeq
	}
}

// compare checks the journal against what was told, and in itself.
func (w *witness) compare(journal []event) error {
	stored := make(map[uint64]string, len(journal))
	running, completed := map[string]int{}, map[string]int{}
	var last uint64
	var status string
	for _, e := range journal {
		what, err := essence(e.raw)
		if err != nil {
			return err
		}
		if e.Seq <= last {
			return fmt.Errorf("%s: number %d stands behind %d in the journal", w.id, e.Seq, last)
		}
		last = e.Seq
		stored[e.Seq] = what
		if text, ok := w.deltas[e.Seq]; ok {
			return fmt.Errorf("%s: number %d was told as %s and is stored as %s", w.id, e.Seq, text, what)
		}
		if e.Type == "status_changed" {
			if e.Status == "running" && status != "waitingToolResult" { // else the turn goes on
				running[e.OperationID]++
			}
			status = e.Status
		}
		if e.Type == "operation_completed" {
			completed[e.OperationID]++
		}
	}
	for seq, what := range w.durable {
		if stored[seq] != what {
			return fmt.Errorf("%s: number %d was told as %s and is stored as %q", w.id, seq, what, stored[seq])
		}
	}
	for _, op := range w.acked {
		if running[op] != 1 {
			return fmt.Errorf("%s: the acknowledged operation %s was begun %d times", w.id, op, running[op])
		}
	}
	for op, code := range w.refused {
		if running[op] > 0 {
			return fmt.Errorf("%s: operation %s was refused with %s and begun all the same", w.id, op, code)
		}
	}
	for op, n := range running {
		if n != 1 || completed[op] > 1 {
			return fmt.Errorf("%s: operation %s was begun %d times and completed %d times", w.id, op, n, completed[op])
		}
	}
	for op := range completed {
		if running[op] == 0 {
			return fmt.Errorf("%s: operation %s was completed and never begun", w.id, op)
		}
	}
	return nil
}

// handed compares the turns of the journal with what agents noted: none was handed
// to an agent twice, and those that succeeded were.
func (w *witness) handed(journal []event, notes *agentNotes) error {
	preparations := 0
	for _, e := range journal {
		if e.Type == "status_changed" && e.Status == "running" && w.turns[e.OperationID] {
			preparations++
		}
		if e.Type != "operation_completed" || !e.Success {
			continue
		}
		if prepares, ours := w.turns[e.OperationID]; ours && !prepares && len(notes.turns[e.OperationID]) == 0 {
			return fmt.Errorf("%s: operation %s succeeded, and no agent got it", w.id, e.OperationID)
		}
	}
	for op := range w.turns {
		if got := notes.turns[op]; len(got) > 1 {
			return fmt.Errorf("%s: operation %s was handed to agents %d times: %v", w.id, op, len(got), got)
		}
		if code, refused := w.refused[op]; refused && len(notes.turns[op]) > 0 {
			return fmt.Errorf("%s: operation %s was refused with %s and handed to an agent all the same", w.id, op, code)
		}
	}
	if got := notes.preparations[w.folder]; w.folder != "" && got > preparations {
		return fmt.Errorf("%s: it was prepared %d times, and agents were asked %d times", w.id, preparations, got)
	}
	return nil
}

// completedAll fails if an operation of the journal has no end.
func completedAll(journal []event) error {
	open := map[string]bool{}
	for _, e := range journal {
		switch {
		case e.Type == "status_changed" && e.Status == "running" && e.OperationID != "":
			open[e.OperationID] = true
		case e.Type == "operation_completed":
			delete(open, e.OperationID)
		}
	}
	for op := range open {
		return fmt.Errorf("operation %s never completed", op)
	}
	return nil
}

// replay subscribes from a cursor and compares what comes with the journal.
func (w *witness) replay(c *conn, rng *rand.Rand, journal []event) error {
	if len(journal) == 0 {
		return nil
	}
	from := rng.IntN(len(journal))
	after := journal[from].Seq
	if err := c.call("subscribe_thread", object{"threadId": w.id, "afterSeq": after}, nil); err != nil {
		return lost(err)
	}
	for _, want := range journal[from+1:] {
		got, err := c.takeEvent(patience)
		for err == nil && got.Type == "assistant_delta" { // of a turn that goes on; not stored
			got, err = c.takeEvent(patience)
		}
		if err != nil {
			return lost(err)
		}
		if !slices.Equal(got.raw, want.raw) {
			g, _ := essence(got.raw) // unreadable ones differ anyway
			j, _ := essence(want.raw)
			if g != j {
				return fmt.Errorf("%s: the replay from %d has %s where the journal has %s", w.id, after, got.raw, want.raw)
			}
		}
	}
	if err := c.call("unsubscribe_thread", object{"threadId": w.id}, nil); err != nil {
		return lost(err)
	}
	c.events = nil // what came between the replay and the end of the subscription
	return nil
}
