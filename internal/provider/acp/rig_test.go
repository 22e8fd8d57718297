package acp

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/proc"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// patience is how long a test waits for what must come; reaching it is a failure.
const patience = 20 * time.Second

// rig is a manager with real processes behind it, which are fake agents.
type rig struct {
	t       *testing.T
	ctx     context.Context
	flavour Flavour
	dir     string // of the fake agents
	home    string // of the daemon
	ws      string
	manager *provider.Manager
	mu      sync.Mutex
	knobs   knobs
	env     map[string]string
	program string // "" = the test binary
}

func newRig(t *testing.T, f Flavour, k knobs, change ...func(*provider.Config)) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, flavour: f, dir: t.TempDir(), home: t.TempDir(), ws: t.TempDir()}
	k.Dir = r.dir
	r.knobs = k
	starter := proc.New(&memoryLedger{entries: map[string][]byte{}}, "test", zerolog.Nop())
	starter.PoliteWait, starter.CloseWait, starter.TermWait = 200*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	cfg := provider.Config{
		Starter:  starter,
		Log:      zerolog.Nop(),
		Drivers:  []provider.Driver{f.Driver()},
		Override: r.override,
		HomeDir:  r.home,
		Redactor: &fault.Redactor{},
	}
	for _, c := range change {
		c(&cfg)
	}
	r.manager = provider.New(cfg)
	t.Cleanup(func() {
		if err := r.manager.Close(context.Background()); err != nil {
			t.Error(err)
		}
		starter.Close()
	})
	return r
}

// set changes the knobs of the agents that are started from now on.
func (r *rig) set(change func(*knobs)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.knobs)
}

func (r *rig) override(thread.Provider) provider.Override {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := json.Marshal(r.knobs)
	if err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	env := map[string]string{knobsEnv: string(text), "GORACE": "atexit_sleep_ms=0"} // else each fake sleeps when it ends
	maps.Copy(env, r.env)
	if r.program != "" {
		self = r.program
	}
	return provider.Override{Command: []string{self}, Env: env}
}

// spec describes a thread whose workspace is the rig's.
func (r *rig) spec(threadID string) thread.SessionSpec {
	return thread.SessionSpec{
		ThreadID:      threadID,
		Provider:      r.flavour.Provider,
		WorkspacePath: r.ws,
		PrivateDir: func() (string, error) {
			dir := filepath.Join(r.ws, ".pedelec-runtime", "threads", threadID)
			return dir, os.MkdirAll(dir, 0o700)
		},
		Permission:   thread.PermitWorkspace,
		Instructions: always(""),
	}
}

// always are instructions that are the same for every channel.
func always(text string) func(thread.ToolChannel) string {
	return func(thread.ToolChannel) string { return text }
}

// open attaches a thread, which must succeed.
func (r *rig) open(spec thread.SessionSpec) (thread.Attachment, *collector) {
	r.t.Helper()
	sink := newCollector(r.t)
	a, err := r.manager.Attach(r.ctx, spec, sink)
	if err != nil {
		r.t.Fatalf("attach %s: %v", spec.ThreadID, err)
	}
	return a, sink
}

// refuse attaches a thread, which must fail with a code.
func (r *rig) refuse(spec thread.SessionSpec, code fault.Code) *fault.Error {
	r.t.Helper()
	a, err := r.manager.Attach(r.ctx, spec, newCollector(r.t))
	if err == nil {
		r.t.Fatalf("attach succeeded with session %s, want %s", a.SessionID, code)
	}
	e := fault.From(err)
	if e.Code != code {
		r.t.Fatalf("attach: %v, want %s", err, code)
	}
	if !strings.HasSuffix(e.Message(), ".") {
		r.t.Errorf("%q is not a sentence", e.Message())
	}
	return e
}

// start begins a turn, which must be accepted.
func (r *rig) start(a thread.Attachment, id uint64, text string) {
	r.t.Helper()
	if err := a.Conversation.StartTurn(r.ctx, thread.Turn{ID: id, Kind: thread.User, Text: text}); err != nil {
		r.t.Fatalf("turn %d: %v", id, err)
	}
}

// run runs a turn to its end and returns its frames.
func (r *rig) run(a thread.Attachment, sink *collector, id uint64, text string) []thread.Frame {
	r.t.Helper()
	r.start(a, id, text)
	return sink.finished(id)
}

// read returns the methods, or "answer", of all that the agents read so far.
func (r *rig) read() []fakeMessage {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "read.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	var all []fakeMessage
	for line := range strings.Lines(string(text)) {
		var m fakeMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			r.t.Fatalf("the agent read %q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

func (r *rig) methods() []string {
	r.t.Helper()
	var all []string
	for _, m := range r.read() {
		if m.Method == "" {
			m.Method = "answer"
		}
		all = append(all, m.Method)
	}
	return all
}

// prompts returns the texts that the agents got.
func (r *rig) prompts() []string {
	r.t.Helper()
	var texts []string
	for _, m := range r.read() {
		if m.Method != "session/prompt" {
			continue
		}
		var p promptParams
		if err := json.Unmarshal(m.Params, &p); err != nil {
			r.t.Fatal(err)
		}
		texts = append(texts, p.Prompt[0].Text)
	}
	return texts
}

// pids returns the processes that run.
func (r *rig) pids() []int {
	var pids []int
	for _, info := range r.manager.Runtimes() {
		pids = append(pids, info.PID)
	}
	return pids
}

// openGateIn lets the prompts of one process go on that wait at the gate.
func (r *rig) openGateIn(pid int) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "gate."+itoa(uint64(pid))), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// until waits for a condition that nothing signals.
func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			r.t.Fatalf("never: %s", what)
		}
	}
}

func (r *rig) environ() []string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "environ"))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

// collector is a sink that keeps everything.
type collector struct {
	t      *testing.T
	mu     sync.Mutex
	frames []thread.Frame
	more   chan struct{} // room for one
}

func newCollector(t *testing.T) *collector { return &collector{t: t, more: make(chan struct{}, 1)} }

func (c *collector) Frame(f thread.Frame) {
	c.mu.Lock()
	c.frames = append(c.frames, f)
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *collector) all() []thread.Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames)
}

// wait returns the frames once they satisfy a condition.
func (c *collector) wait(what string, holds func([]thread.Frame) bool) []thread.Frame {
	c.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		frames := c.all()
		if holds(frames) {
			return frames
		}
		select {
		case <-c.more:
		case <-late.C:
			c.t.Fatalf("never: %s; got %s", what, words(frames))
		}
	}
}

// finished waits for a turn's terminal frame and returns the turn's frames but
// those that only show activity.
func (c *collector) finished(turn uint64) []thread.Frame {
	c.t.Helper()
	ofTurn := func(frames []thread.Frame) (own []thread.Frame) {
		for _, f := range frames {
			if f.Turn == turn && f.Kind != thread.FrameActivity {
				own = append(own, f)
			}
		}
		return own
	}
	return ofTurn(c.wait("the end of the turn", func(frames []thread.Frame) bool {
		own := ofTurn(frames)
		return len(own) > 0 && own[len(own)-1].Kind == thread.FrameFinished
	}))
}

// sawText waits for a delta with this text.
func (c *collector) sawText(text string) {
	c.t.Helper()
	c.wait("the text "+text, func(frames []thread.Frame) bool {
		return slices.ContainsFunc(frames, func(f thread.Frame) bool { return f.Kind == thread.FrameDelta && f.Text == text })
	})
}

// words writes frames down shortly: d:text, m:text, u:tokens, ok, failed CODE,
// cancelled, gone CODE.
func words(frames []thread.Frame) string {
	var all []string
	for _, f := range frames {
		switch f.Kind {
		case thread.FrameDelta:
			all = append(all, "d:"+f.Text)
		case thread.FrameMessage:
			all = append(all, "m:"+f.Text)
		case thread.FrameUsage:
			all = append(all, "u:"+itoa(f.Usage.Tokens))
		case thread.FrameGone:
			all = append(all, "gone "+string(f.Err.Code))
		case thread.FrameFinished:
			switch f.Outcome {
			case thread.OutcomeSuccess:
				all = append(all, "ok")
			case thread.OutcomeCancelled:
				all = append(all, "cancelled")
			case thread.OutcomeFailed:
				all = append(all, "failed "+string(f.Err.Code))
			}
		}
	}
	return strings.Join(all, " | ")
}

func itoa(n uint64) string {
	text, _ := json.Marshal(n)
	return string(text)
}

func unmarshal(t *testing.T, text []byte, v any) {
	t.Helper()
	if len(text) == 0 {
		return
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatal(err)
	}
}

type memoryLedger struct {
	mu      sync.Mutex
	entries map[string][]byte
}

func (l *memoryLedger) Put(id string, value []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[id] = value
	return nil
}

func (l *memoryLedger) Delete(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, id)
	return nil
}

func (l *memoryLedger) All() (map[string][]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.entries), nil
}

func eq(t *testing.T, what string, got, want any) {
	t.Helper()
	g, _ := json.Marshal(got, json.Deterministic(true))
	w, _ := json.Marshal(want, json.Deterministic(true))
	if string(g) != string(w) {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}
