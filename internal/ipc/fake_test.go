package ipc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

const testToken = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// memoryThreads is a Threads that keeps threads in memory and runs no agent.
type memoryThreads struct {
	mu       sync.Mutex
	threads  map[string]*memoryThread
	created  []thread.CreateRequest
	callers  []thread.Caller
	fail     map[string]error         // by method
	hold     map[string]chan struct{} // by method: calls wait until it is closed
	entered  chan string              // every call's method, when it begins to wait
	panicIn  string
	snapshot func(*thread.Snapshot)
	list     []thread.Summary
	ops      map[string]string

	receipts  []thread.Delivery
	submitted []string
}

type memoryThread struct {
	id     string
	owner  string
	status thread.Status
	events []thread.Event
	lines  [][]byte
	trim   uint64
	feeds  map[*memoryFeed]struct{}
}

func newMemoryThreads() *memoryThreads {
	return &memoryThreads{
		threads: map[string]*memoryThread{},
		fail:    map[string]error{},
		hold:    map[string]chan struct{}{},
		entered: make(chan string, 64),
		ops:     map[string]string{},
	}
}

// enter does what a test told a method to do.
func (m *memoryThreads) enter(ctx context.Context, method string, c thread.Caller) error {
	m.mu.Lock()
	m.callers = append(m.callers, c)
	hold, err := m.hold[method], m.fail[method]
	boom := m.panicIn == method
	m.mu.Unlock()
	if boom {
		panic("told to")
	}
	if hold != nil {
		thread.Placed(ctx)
		m.entered <- method
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (m *memoryThreads) find(c thread.Caller, id string) (*memoryThread, error) {
	t := m.threads[id]
	if t == nil {
		return nil, fault.New(fault.ThreadNotFound, "").With("threadId", id)
	}
	if !c.MayActOn(t.owner) {
		return nil, fault.New(fault.ThreadAccessDenied, "").With("threadId", id)
	}
	return t, nil
}

func (m *memoryThreads) Create(ctx context.Context, c thread.Caller, r thread.CreateRequest) (string, error) {
	if err := m.enter(ctx, "Create", c); err != nil {
		return "", err
	}
	if c.OriginStated && c.Origin == "" {
		return "", fault.New(fault.ThreadAccessDenied, "")
	}
	if r.Skills != nil {
		checked, err := r.Skills.Check()
		if err != nil {
			return "", err
		}
		r.Skills = &checked
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.created = append(m.created, r)
	t := &memoryThread{id: fmt.Sprintf("t%016d", len(m.threads)+1), owner: c.Origin, status: thread.Idle, feeds: map[*memoryFeed]struct{}{}}
	m.threads[t.id] = t
	t.publish(thread.Event{Kind: thread.EventCreated}, thread.Event{Kind: thread.EventStatusChanged, Status: thread.Idle})
	return t.id, nil
}

// publish gives events their numbers and tells the feeds. m.mu is held.
func (t *memoryThread) publish(events ...thread.Event) {
	for _, ev := range events {
		ev.Seq = uint64(len(t.events) + 1)
		t.events = append(t.events, ev)
		t.lines = append(t.lines, EncodeEvent(nil, t.id, &ev))
	}
	for f := range t.feeds {
		f.signal()
	}
}

// tell publishes from outside.
func (m *memoryThreads) tell(id string, events ...thread.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.threads[id].publish(events...)
}

func (m *memoryThreads) snapshotOf(t *memoryThread) thread.Snapshot {
	s := thread.Snapshot{ThreadID: t.id, Status: t.status, LatestSeq: uint64(len(t.events))}
	if m.snapshot != nil {
		m.snapshot(&s)
	}
	return s
}

type memoryFeed struct {
	m       *memoryThreads
	t       *memoryThread
	wake    chan<- struct{}
	snap    thread.Snapshot
	replay  *thread.Replay
	cursor  uint64
	written uint64
	closed  bool
}

func (m *memoryThreads) Subscribe(ctx context.Context, c thread.Caller, id string, after *uint64, wake chan<- struct{}) (thread.Feed, error) {
	if err := m.enter(ctx, "Subscribe", c); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.find(c, id)
	if err != nil {
		return nil, err
	}
	f := &memoryFeed{m: m, t: t, wake: wake, snap: m.snapshotOf(t)}
	f.cursor = f.snap.LatestSeq
	if after != nil {
		f.cursor = min(*after, f.cursor)
		f.replay = &thread.Replay{FromSeq: *after + 1, ToSeq: f.snap.LatestSeq}
	}
	t.feeds[f] = struct{}{}
	f.signal()
	return f, nil
}

func (f *memoryFeed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *memoryFeed) Snapshot() thread.Snapshot { return f.snap }
func (f *memoryFeed) Replay() *thread.Replay    { return f.replay }

func (f *memoryFeed) Take(limit int) ([][]byte, uint64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.m.panicIn == "Take" {
		panic("told to")
	}
	if f.t.trim > f.cursor {
		return nil, 0, thread.ErrTrimmed
	}
	var lines [][]byte
	size := 0
	for f.cursor < uint64(len(f.t.lines)) {
		inGroup := f.cursor > 0 && f.t.events[f.cursor-1].Grouped
		if size >= limit && !inGroup {
			break
		}
		lines = append(lines, f.t.lines[f.cursor])
		size += len(f.t.lines[f.cursor])
		f.cursor++
	}
	return lines, f.cursor, nil
}

func (f *memoryFeed) Written(seq uint64) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.written = seq
}

func (f *memoryFeed) Close() {
	f.m.mu.Lock()
	f.closed = true
	delete(f.t.feeds, f)
	f.m.mu.Unlock()
	select {
	case f.m.entered <- "Close":
	default:
	}
}

func (m *memoryThreads) feedCount(id string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.threads[id].feeds)
}

func (m *memoryThreads) Snapshot(ctx context.Context, c thread.Caller, id string) (thread.Snapshot, error) {
	if err := m.enter(ctx, "Snapshot", c); err != nil {
		return thread.Snapshot{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.find(c, id)
	if err != nil {
		return thread.Snapshot{}, err
	}
	return m.snapshotOf(t), nil
}

func (m *memoryThreads) admit(ctx context.Context, method string, c thread.Caller, id, text string, op *string) (thread.Admission, error) {
	if err := m.enter(ctx, method, c); err != nil {
		return thread.Admission{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.find(c, id)
	if err != nil {
		return thread.Admission{}, err
	}
	a := thread.Admission{OperationID: "operation_1"}
	if op != nil {
		a.OperationID = *op
	}
	if old, known := m.ops[id+a.OperationID]; known && op != nil {
		if old != text {
			return thread.Admission{}, fault.New(fault.InvalidInput, "").With("operationId", *op)
		}
		a.Replayed = true
		return a, nil
	}
	m.ops[id+a.OperationID] = text
	t.publish(thread.Event{Kind: thread.EventStatusChanged, Status: thread.Running, OperationID: a.OperationID})
	return a, nil
}

func (m *memoryThreads) Prepare(ctx context.Context, c thread.Caller, id string, op *string) (thread.Admission, error) {
	return m.admit(ctx, "Prepare", c, id, "", op)
}

func (m *memoryThreads) SendText(ctx context.Context, c thread.Caller, id, message string, op *string) (thread.Admission, error) {
	return m.admit(ctx, "SendText", c, id, message, op)
}

func (m *memoryThreads) Cancel(ctx context.Context, c thread.Caller, id string, op *string) (thread.Cancellation, error) {
	if err := m.enter(ctx, "Cancel", c); err != nil {
		return thread.Cancellation{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find(c, id); err != nil {
		return thread.Cancellation{}, err
	}
	if op == nil {
		return thread.Cancellation{}, nil
	}
	return thread.Cancellation{OperationID: *op, Cancelled: true}, nil
}

func (m *memoryThreads) setStatus(ctx context.Context, method string, c thread.Caller, id string, to thread.Status) (thread.Snapshot, error) {
	if err := m.enter(ctx, method, c); err != nil {
		return thread.Snapshot{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.find(c, id)
	if err != nil {
		return thread.Snapshot{}, err
	}
	t.status = to
	t.publish(thread.Event{Kind: thread.EventStatusChanged, Status: to})
	return m.snapshotOf(t), nil
}

func (m *memoryThreads) End(ctx context.Context, c thread.Caller, id string) error {
	_, err := m.setStatus(ctx, "End", c, id, thread.Ended)
	return err
}

func (m *memoryThreads) Resume(ctx context.Context, c thread.Caller, id string) (thread.Snapshot, error) {
	return m.setStatus(ctx, "Resume", c, id, thread.Idle)
}

func (m *memoryThreads) Delete(ctx context.Context, c thread.Caller, id string) error {
	if err := m.enter(ctx, "Delete", c); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find(c, id); err != nil {
		return err
	}
	delete(m.threads, id)
	return nil
}

func (m *memoryThreads) CallTool(ctx context.Context, r thread.ToolRequest) (jsontext.Value, error) {
	if err := m.enter(ctx, "CallTool", thread.Caller{}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.receipts = append(m.receipts, r.Delivery)
	return r.Args, nil
}

func (m *memoryThreads) ToolSpec(_ context.Context, _, name string) (thread.Tool, error) {
	return thread.Tool{Name: name, Description: "Says it.", ArgsSchema: jsontext.Value(`{"type":"object"}`), Timeout: time.Minute}, nil
}

func (m *memoryThreads) SubmitToolResult(ctx context.Context, c thread.Caller, id, requestID string, result jsontext.Value) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.submitted = append(m.submitted, requestID+" "+string(result))
	return nil
}

func (m *memoryThreads) List(ctx context.Context, c thread.Caller, q thread.ListQuery) (thread.Page, error) {
	if err := m.enter(ctx, "List", c); err != nil {
		return thread.Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var page thread.Page
	for _, s := range m.list {
		if s.ThreadID <= q.After || q.Owner != "" && s.Owner != q.Owner || q.Status != 0 && s.Status != q.Status {
			continue
		}
		if len(page.Threads) == q.Limit {
			page.Next = page.Threads[q.Limit-1].ThreadID
			break
		}
		page.Threads = append(page.Threads, s)
	}
	return page, nil
}

func (m *memoryThreads) ReadEvents(ctx context.Context, c thread.Caller, id string, after uint64, limit int) (thread.EventPage, error) {
	if err := m.enter(ctx, "ReadEvents", c); err != nil {
		return thread.EventPage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.find(c, id)
	if err != nil {
		return thread.EventPage{}, err
	}
	page := thread.EventPage{NextSeq: after}
	for _, ev := range t.events {
		if ev.Seq <= after || len(page.Events) == limit {
			continue
		}
		je := thread.JournalEvent{Event: ev}
		if text, ok := m.ops[id+ev.OperationID]; ok && ev.Status == thread.Running {
			je.Message = &text
		}
		page.Events = append(page.Events, je)
		page.NextSeq = ev.Seq
	}
	return page, nil
}

// memorySettings is a Settings, Providers, Picker and Operator.
type memorySettings struct {
	mu           sync.Mutex
	standard     string
	settingsErr  error
	requireToken bool
	picked       string
	pickErr      error
	statuses     []thread.ProviderStatus
	shutdowns    int
	backups      []string
	allowed      []string
	pickHold     chan struct{} // Pick waits until it is closed; nil = it does not
	picking      chan struct{} // gets a value when Pick waits
}

func (m *memorySettings) DefaultProvider() (string, error) { return m.standard, m.settingsErr }

func (m *memorySettings) Update(_ context.Context, v jsontext.Value) (jsontext.Value, error) {
	return v.Clone(), m.settingsErr
}
func (m *memorySettings) AllowedOrigins() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.allowed)
}

func (m *memorySettings) allow(origins ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allowed = origins
}

func (m *memorySettings) RequireToken() bool { return m.requireToken }
func (m *memorySettings) Pick(ctx context.Context) (string, error) {
	if m.pickHold != nil {
		if m.picking != nil {
			m.picking <- struct{}{}
		}
		select {
		case <-m.pickHold:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return m.picked, m.pickErr
}

func (m *memorySettings) List(context.Context) []thread.ProviderStatus    { return m.statuses }
func (m *memorySettings) Refresh(context.Context) []thread.ProviderStatus { return m.statuses }
func (m *memorySettings) Runtimes() []thread.RuntimeInfo {
	return []thread.RuntimeInfo{{RuntimeID: "r1", Provider: thread.OpenCode, PID: 42, StartedAt: testTime, Sessions: 2, Turns: 1}}
}

func (m *memorySettings) Backup(_ context.Context, path string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backups = append(m.backups, path)
	return 4096, nil
}

func (m *memorySettings) Shutdown() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shutdowns++
}
