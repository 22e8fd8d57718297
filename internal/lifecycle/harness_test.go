package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

var errDisk = fault.New(fault.StorageFull, "the test's disk is full")

// bench is a service on a store and a runtime in memory.
type bench struct {
	*testing.T
	*Service
	store      *memStore
	runtime    *memRuntime
	workspaces *memWorkspaces
	transfers  *memTransfers
}

// start runs f in a synctest bubble with a service of its own.
func start(t *testing.T, f func(b *bench)) {
	t.Helper()
	startOn(t, nil, nil, f)
}

// startOn is start with a store that an earlier service may have filled.
func startOn(t *testing.T, prepare func(m *memStore), change func(c *Config), f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, store: newMemStore("now"), runtime: newMemRuntime(), workspaces: &memWorkspaces{}, transfers: &memTransfers{}}
		if prepare != nil {
			prepare(b.store)
		}
		cfg := Config{
			Store: b.store, Runtimes: b.runtime, Workspaces: b.workspaces, Transfers: b.transfers, Profiles: memProfiles{},
			Encode: encodeForTest, Instance: "now", Log: zerolog.Nop(), Retention: DefaultRetention,
		}
		if change != nil {
			change(&cfg)
		}
		b.Service = New(cfg)
		defer func() { // also when f has failed, or the bubble could not end
			if err := b.Close(context.Background()); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		f(b)
	})
}

// encodeForTest writes an event as one readable line.
func encodeForTest(dst []byte, _ string, ev *thread.Event) []byte {
	words := []string{ev.Kind.String()}
	if ev.Kind == thread.EventStatusChanged {
		words = append(words, ev.Status.String())
	}
	if ev.OperationID != "" {
		words = append(words, "("+ev.OperationID+")")
	}
	if ev.Kind == thread.EventOperationCompleted {
		words = append(words, fmt.Sprint(ev.Success))
	}
	if ev.Error != nil {
		words = append(words, string(ev.Error.Code))
	}
	if ev.Text != "" {
		words = append(words, ev.Text)
	}
	return append(append(dst, strings.Join(words, " ")...), '\n')
}

var anyone = thread.Caller{}

func (b *bench) create() string {
	b.Helper()
	id, err := b.Create(b.Context(), anyone, thread.CreateRequest{Provider: thread.OpenCode})
	if err != nil {
		b.Fatalf("create: %v", err)
	}
	return id
}

func (b *bench) createCustom() string {
	b.Helper()
	path := "/custom"
	id, err := b.Create(b.Context(), anyone, thread.CreateRequest{Provider: thread.OpenCode, WorkspacePath: &path})
	if err != nil {
		b.Fatalf("create: %v", err)
	}
	return id
}

func (b *bench) send(id, op, text string) {
	b.Helper()
	if _, err := b.SendText(b.Context(), anyone, id, text, &op); err != nil {
		b.Fatalf("send %s: %v", op, err)
	}
}

// watcher is a subscriber that takes everything at once, unless it is paused.
type watcher struct {
	b    *bench
	feed thread.Feed
	wake chan struct{}
}

func (b *bench) watch(id string, afterSeq ...uint64) *watcher {
	b.Helper()
	w := &watcher{b: b, wake: make(chan struct{}, 1)}
	var after *uint64
	if len(afterSeq) > 0 {
		after = &afterSeq[0]
	}
	feed, err := b.Subscribe(b.Context(), anyone, id, after, w.wake)
	if err != nil {
		b.Fatalf("subscribe: %v", err)
	}
	w.feed = feed
	return w
}

// got takes what is ready once everything has come to rest, and acknowledges it.
func (w *watcher) got() []string {
	w.b.Helper()
	synctest.Wait()
	var got []string
	for {
		lines, last, err := w.feed.Take(1 << 20)
		if err != nil {
			w.b.Fatalf("take: %v", err)
		}
		if len(lines) == 0 {
			return got
		}
		for _, l := range lines {
			got = append(got, strings.TrimSuffix(string(l), "\n"))
		}
		w.feed.Written(last)
	}
}

func (w *watcher) expect(want ...string) {
	w.b.Helper()
	if diff := cmp.Diff(want, w.got()); diff != "" {
		w.b.Fatalf("events (-want +got):\n%s", diff)
	}
}

func wantCode(t testing.TB, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Fatalf("error = %v, want code %s", err, code)
	}
}

// memRuntime is a provider in memory, driven by the test.
type memRuntime struct {
	mu       sync.Mutex
	attach   func(ctx context.Context, spec thread.SessionSpec) (thread.Attachment, error) // nil = opens a fresh or the asked session
	opened   []*memConversation
	specs    []thread.SessionSpec
	sessions int
}

func newMemRuntime() *memRuntime { return &memRuntime{} }

func (r *memRuntime) Attach(ctx context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, error) {
	r.mu.Lock()
	hook := r.attach
	r.specs = append(r.specs, spec)
	r.mu.Unlock()
	var att thread.Attachment
	if hook != nil {
		var err error
		if att, err = hook(ctx, spec); err != nil {
			return att, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if att.SessionID == "" {
		att.SessionID = spec.SessionID
		if att.SessionID == "" {
			r.sessions++
			att.SessionID, att.Fresh = fmt.Sprintf("session-%d", r.sessions), true
		}
	}
	c := &memConversation{sink: sink, alive: true}
	att.Conversation = c
	r.opened = append(r.opened, c)
	return att, nil
}

// last returns the conversation that was opened last, once all is at rest.
func (b *bench) conversation() *memConversation {
	b.Helper()
	synctest.Wait()
	b.runtime.mu.Lock()
	defer b.runtime.mu.Unlock()
	if len(b.runtime.opened) == 0 {
		b.Fatal("no provider session was opened")
	}
	return b.runtime.opened[len(b.runtime.opened)-1]
}

func (b *bench) attaches() int {
	b.runtime.mu.Lock()
	defer b.runtime.mu.Unlock()
	return len(b.runtime.specs)
}

type memConversation struct {
	sink thread.Sink

	mu        sync.Mutex
	alive     bool
	turns     []thread.Turn
	cancelled []uint64
	abandoned []uint64
	closed    int
	onCancel  func(turn uint64)
	startErr  error
	onStart   func() // with mu held
	answers   []string
}

func (c *memConversation) StartTurn(_ context.Context, t thread.Turn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns = append(c.turns, t)
	if c.onStart != nil {
		c.onStart()
	}
	return c.startErr
}

func (c *memConversation) Cancel(_ context.Context, turn uint64) error {
	c.mu.Lock()
	c.cancelled = append(c.cancelled, turn)
	hook := c.onCancel
	c.mu.Unlock()
	if hook != nil {
		hook(turn)
	}
	return nil
}

func (c *memConversation) AnswerTool(_ context.Context, callID string, a thread.ToolAnswer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := string(a.Result)
	if a.Error != nil {
		said = string(a.Error.Code)
	}
	c.answers = append(c.answers, callID+" "+said)
	return nil
}

func (c *memConversation) Abandon(turn uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandoned = append(c.abandoned, turn)
	c.alive = false
}

func (c *memConversation) Alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alive
}

func (c *memConversation) Close(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	c.alive = false
	return nil
}

// turn returns the turn that was started last.
func (c *memConversation) turn() thread.Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns[len(c.turns)-1]
}

func (c *memConversation) says(frames ...thread.Frame) {
	turn := c.turn().ID
	for _, f := range frames {
		f.Turn = turn
		c.sink.Frame(f)
	}
}

func delta(text string) thread.Frame {
	return thread.Frame{Kind: thread.FrameDelta, Text: text}
}

func message(text string) thread.Frame {
	return thread.Frame{Kind: thread.FrameMessage, Text: text}
}

func finished(o thread.Outcome) thread.Frame {
	return thread.Frame{Kind: thread.FrameFinished, Outcome: o}
}

type memWorkspaces struct {
	mu        sync.Mutex
	undone    int
	reopenErr error
}

func (w *memWorkspaces) CreateManaged(id string) (string, func(), error) {
	return "/managed/" + id, w.undo, nil
}

func (w *memWorkspaces) CreateCustom(path, _, _ string) (canonical string, keep, undo func(), err error) {
	return path, func() {}, w.undo, nil
}

func (w *memWorkspaces) undo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undone++
}

func (w *memWorkspaces) Reopen(string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reopenErr
}

func (w *memWorkspaces) PrivateDir(path, id string) (string, error) { return path + "/" + id, nil }

// memTransfers notes what it is told.
type memTransfers struct {
	mu   sync.Mutex
	told []string
}

func (m *memTransfers) note(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, s)
}

func (m *memTransfers) Abort(string)  { m.note("abort") }
func (m *memTransfers) Reopen(string) { m.note("reopen") }
func (m *memTransfers) Ended(string)  { m.note("ended") }
func (m *memTransfers) RemoveStaged(path, name string) error {
	m.note("remove " + path + " " + name)
	return nil
}

func (m *memTransfers) expect(t testing.TB, want ...string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if diff := cmp.Diff(want, m.told); diff != "" {
		t.Fatalf("transfers (-want +got):\n%s", diff)
	}
	m.told = nil
}

type memProfiles struct{}

func (memProfiles) EffortArgs(thread.Provider, thread.Effort) ([]string, error) { return nil, nil }
func (memProfiles) Permission(thread.Provider) thread.Permission                { return thread.PermitWorkspace }

const tick = time.Millisecond
