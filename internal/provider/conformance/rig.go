package conformance

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/proc"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Rig is a manager with real processes behind it, which are fake agents.
type Rig struct {
	*testing.T
	Ctx     context.Context
	Driver  provider.Driver
	Dir     string // of the fake agents: conversations, what they read, gates
	Home    string // of the daemon
	WS      string // the threads' workspace
	Manager *provider.Manager

	mu       sync.Mutex
	override provider.Override
}

// NewRig starts a manager for one driver. Its programs are started with the
// override.
func NewRig(t *testing.T, d provider.Driver, o provider.Override, dir string, change ...func(*provider.Config)) *Rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	r := &Rig{T: t, Ctx: ctx, Driver: d, Dir: dir, Home: t.TempDir(), WS: t.TempDir(), override: o}
	starter := proc.New(&memoryLedger{entries: map[string][]byte{}}, "test", zerolog.Nop())
	starter.PoliteWait, starter.CloseWait, starter.TermWait = 200*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	cfg := provider.Config{
		Starter: starter, Log: zerolog.Nop(), Drivers: []provider.Driver{d}, HomeDir: r.Home, Redactor: &fault.Redactor{},
		Override: func(thread.Provider) provider.Override {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.override
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	r.Manager = provider.New(cfg)
	t.Cleanup(func() {
		if err := r.Manager.Close(context.Background()); err != nil {
			t.Error(err)
		}
		starter.Close()
	})
	return r
}

// Use changes how programs are started from now on.
func (r *Rig) Use(o provider.Override) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.override = o
}

// Spec describes a thread whose workspace is the rig's.
func (r *Rig) Spec(threadID string) thread.SessionSpec {
	return thread.SessionSpec{
		ThreadID:      threadID,
		Provider:      r.Driver.Provider,
		WorkspacePath: r.WS,
		PrivateDir: func() (string, error) {
			dir := filepath.Join(r.WS, ".pedelec-runtime", "threads", threadID)
			return dir, os.MkdirAll(dir, 0o700)
		},
		Permission:   thread.PermitWorkspace,
		Instructions: func(thread.ToolChannel) string { return "" },
	}
}

// Open attaches a thread, which must succeed.
func (r *Rig) Open(spec thread.SessionSpec) (thread.Attachment, *Collector) {
	r.Helper()
	sink := NewCollector(r.T)
	a, err := r.Manager.Attach(r.Ctx, spec, sink)
	if err != nil {
		r.Fatalf("attach %s: %v", spec.ThreadID, err)
	}
	return a, sink
}

// Resume attaches a thread again, with the conversation that it had.
func (r *Rig) Resume(spec thread.SessionSpec, a thread.Attachment) (thread.Attachment, *Collector) {
	r.Helper()
	spec.SessionID, spec.Instructed = a.SessionID, true
	return r.Open(spec)
}

// Refuse attaches a thread, which must fail with one of these codes.
func (r *Rig) Refuse(spec thread.SessionSpec, codes ...fault.Code) *fault.Error {
	r.Helper()
	a, err := r.Manager.Attach(r.Ctx, spec, NewCollector(r.T))
	if err == nil {
		r.Fatalf("attach succeeded with session %s, want %v", a.SessionID, codes)
	}
	e := fault.From(err)
	if !slices.Contains(codes, e.Code) {
		r.Fatalf("attach: %v (%v), want %v", err, e.Details, codes)
	}
	if !strings.HasSuffix(e.Message(), ".") {
		r.Errorf("%q is not a sentence", e.Message())
	}
	return e
}

// Start begins a turn, which must be accepted.
func (r *Rig) Start(a thread.Attachment, id uint64, text string) {
	r.Helper()
	if err := a.Conversation.StartTurn(r.Ctx, thread.Turn{ID: id, Kind: thread.User, Text: text}); err != nil {
		r.Fatalf("turn %d: %v", id, err)
	}
}

// Turn runs a turn to its end and returns its frames.
func (r *Rig) Turn(a thread.Attachment, sink *Collector, id uint64, text string) []thread.Frame {
	r.Helper()
	r.Start(a, id, text)
	return sink.Finished(id)
}

// Cancel asks for the end of a turn.
func (r *Rig) Cancel(a thread.Attachment, id uint64) {
	r.Helper()
	if err := a.Conversation.Cancel(r.Ctx, id); err != nil {
		r.Fatalf("cancel %d: %v", id, err)
	}
}

// PIDs returns the processes that run, oldest first.
func (r *Rig) PIDs() []int {
	var pids []int
	for _, info := range r.Manager.Runtimes() {
		pids = append(pids, info.PID)
	}
	return pids
}

// Kill ends a process without asking it.
func (r *Rig) Kill(pid int) {
	r.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = errors.Join(p.Kill(), p.Release())
	}
	if err != nil {
		r.Fatal(err)
	}
	r.Until("the process's end", func() bool { return !slices.Contains(r.PIDs(), pid) })
}

// OpenGates lets the turns of processes go on that wait at their gate.
func (r *Rig) OpenGates(pids ...int) {
	r.Helper()
	for _, pid := range pids {
		if err := os.WriteFile(gateFile(r.Dir, pid), nil, 0o600); err != nil {
			r.Fatal(err)
		}
	}
}

// gateFile opens the gate of a process when it is made.
func gateFile(dir string, pid int) string { return filepath.Join(dir, "gate."+strconv.Itoa(pid)) }

// Until waits for a condition that nothing signals.
func (r *Rig) Until(what string, holds func() bool) {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-r.Ctx.Done():
			r.Fatalf("never: %s", what)
		}
	}
}

// Read returns the lines that all fakes read so far.
func (r *Rig) Read() []string {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.Dir, "read.jsonl"))
	if err != nil {
		r.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// Environ returns the environment of the fake that was started last.
func (r *Rig) Environ() []string {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.Dir, "environ"))
	if err != nil {
		r.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

// Args returns the arguments of every fake that was started, oldest first.
func (r *Rig) Args() [][]string {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.Dir, "args"))
	if err != nil {
		r.Fatal(err)
	}
	var all [][]string
	for line := range strings.Lines(string(text)) {
		all = append(all, strings.Split(strings.TrimSuffix(line, "\n"), "\x00"))
	}
	return all
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
