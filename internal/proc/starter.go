package proc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// The steps of the stop ladder and other waits, when a Starter's fields are not
// set otherwise.
const (
	DefaultPoliteWait   = 2 * time.Second        // for the provider's own goodbye
	DefaultCloseWait    = 500 * time.Millisecond // from closed stdin to TERM
	DefaultTermWait     = time.Second            // from TERM to KILL
	DefaultKillWait     = 2 * time.Second        // from KILL until we stop waiting and say so
	DefaultDrainWait    = 2 * time.Second        // for pipes that something else holds open after the exit
	DefaultWriteTimeout = 10 * time.Second       // for one frame into stdin
)

// Spec says what to start.
type Spec struct {
	Provider string   // for the ledger and logs
	Path     string   // the program, an absolute path
	Args     []string // its arguments, without the program's name; never secrets, every user sees them
	Dir      string   // where it runs; "" = the directory for temporary files, or the root where that is gone
	Env      []string // NAME=value, over what is inherited
	Inherit  []string // further variables to inherit; a final * makes a prefix

	// OnFrame gets each frame on the goroutine that reads stdout. The bytes are
	// valid until it returns. It must not block, so it answers with
	// Process.Post. It is not called after Done is closed.
	OnFrame func(p *Process, frame []byte)
	// OnStray, if set, gets each line that is no frame, under the same rules.
	OnStray func(p *Process, s Stray)
}

// Starter starts runtimes and knows those that run. Make one with New, set its
// fields before the first call, Close it at the end.
type Starter struct {
	Ledger   Ledger
	Instance string // id of this run of the daemon
	Log      zerolog.Logger

	PoliteWait, CloseWait, TermWait, KillWait, DrainWait, WriteTimeout time.Duration

	FrameLimit int // bytes; 0 = DefaultFrameLimit

	spawns  chan func()   // to the spawner goroutine
	spawned chan struct{} // closed when that has ended

	mu       sync.Mutex
	closed   bool
	running  map[*Process]struct{}
	starting sync.WaitGroup
	sweeping chan struct{} // closed when the sweep that is under way, or awaited, has ended; nil = none
	held     bool          // the sweep is awaited
}

// New returns a Starter with the default waits. instance must differ between
// runs of the daemon: entries of other instances are what Sweep clears.
func New(ledger Ledger, instance string, log zerolog.Logger) *Starter {
	s := &Starter{
		Ledger:       ledger,
		Instance:     instance,
		Log:          log,
		PoliteWait:   DefaultPoliteWait,
		CloseWait:    DefaultCloseWait,
		TermWait:     DefaultTermWait,
		KillWait:     DefaultKillWait,
		DrainWait:    DefaultDrainWait,
		WriteTimeout: DefaultWriteTimeout,
		spawns:       make(chan func()),
		spawned:      make(chan struct{}),
		running:      make(map[*Process]struct{}),
	}
	if err := enterJob(); err != nil {
		log.Warn().Err(err).Msg("a crash of the daemon will leave its agents running: it could not enter a job of its own")
	}
	go s.spawner()
	return s
}

// spawner does every start, on one thread that lives as long as the Starter.
// It ends with the thread still locked, which ends the thread too; by then no
// child is left that this could hit.
func (s *Starter) spawner() {
	runtime.LockOSThread()
	defer close(s.spawned)
	for spawn := range s.spawns {
		spawn()
	}
}

// Start starts a program. Cancelling ctx gives a start up that is under way and
// means nothing afterwards. It waits for a sweep that is under way, or that
// [Starter.HoldStarts] announced. Errors: PROVIDER_RUNTIME_START_FAILED,
// CORE_RUNTIME_UNAVAILABLE after Close.
func (s *Starter) Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.starting.Done()
	p, err := s.start(ctx, spec)
	if err != nil {
		return nil, startError(spec, err)
	}
	return p, nil
}

func (s *Starter) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.CoreRuntimeUnavailable, "The daemon is shutting down.")
	}
	s.starting.Add(1)
	return nil
}

func startError(spec Spec, err error) error {
	if fault.Is(err, fault.ProviderRuntimeStartFailed) {
		return err
	}
	reason := "it could not be recorded or run"
	switch {
	case errors.Is(err, os.ErrNotExist):
		reason = "the program or its directory does not exist"
	case errors.Is(err, os.ErrPermission):
		reason = "the program may not be executed"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		reason = "the start was given up"
	}
	return fault.Wrap(fault.ProviderRuntimeStartFailed, "proc.start", err,
		fmt.Sprintf("%s did not start: %s.", filepath.Base(spec.Path), reason))
}

// start goes through the steps of a start, and back through them on an error.
func (s *Starter) start(ctx context.Context, spec Spec) (_ *Process, err error) {
	if !filepath.IsAbs(spec.Path) {
		return nil, fault.Newf(fault.ProviderRuntimeStartFailed, "The program %q is not an absolute path.", spec.Path)
	}
	if err := s.awaitSweep(ctx); err != nil {
		return nil, err
	}
	entry := Entry{RuntimeID: newRuntimeID(), Provider: spec.Provider, Instance: s.Instance, BootID: bootID()}
	if err := s.record(entry); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.forget(entry)
		}
	}()
	if err := fault.Point("proc.start.recorded"); err != nil {
		return nil, err
	}
	p, err := s.launch(ctx, spec, entry.RuntimeID)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	if err := fault.Point("proc.start.spawned"); err != nil {
		return nil, err
	}
	entry.PID = p.PID
	if entry.StartTime, err = startTime(p.PID); err != nil {
		return nil, fmt.Errorf("read the start time: %w", err)
	}
	if err := s.record(entry); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.running[p] = struct{}{}
	s.mu.Unlock()
	p.run(entry)
	return p, nil
}

// commonDir returns a directory for programs that belong to no thread.
func commonDir() string {
	dir := os.TempDir()
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir
	}
	return filepath.VolumeName(dir) + string(filepath.Separator)
}

// launch makes the pipes and has the spawner start the program.
func (s *Starter) launch(ctx context.Context, spec Spec, runtimeID string) (*Process, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, err
	}
	dir := spec.Dir
	if dir == "" {
		dir = commonDir()
	}
	attr := &os.ProcAttr{
		Dir:   dir,
		Env:   environment(os.Environ(), spec.Inherit, spec.Env, runtimeID),
		Files: []*os.File{pipes.stdin.child, pipes.stdout.child, pipes.stderr.child},
	}
	var (
		process   *os.Process
		relatives *kin
		started   = make(chan struct{})
	)
	s.spawns <- func() {
		defer close(started)
		process, relatives, err = spawn(spec.Path, spec.Args, attr)
	}
	<-started // an exec that has begun cannot be given up; it takes milliseconds
	pipes.closeChildEnds()
	if err != nil {
		pipes.closeOurEnds()
		return nil, err
	}
	return newProcess(s, spec, runtimeID, process, relatives, pipes), nil
}

// record makes an entry durable.
func (s *Starter) record(e Entry) error {
	value, err := encodeEntry(e)
	if err != nil {
		return err
	}
	if err := s.Ledger.Put(e.RuntimeID, value); err != nil {
		return fmt.Errorf("record the runtime: %w", err)
	}
	return nil
}

// forget removes an entry. One that cannot be removed costs the next start of
// the daemon a look for a process that is not there.
func (s *Starter) forget(e Entry) {
	if err := s.Ledger.Delete(e.RuntimeID); err != nil {
		s.Log.Warn().Err(err).Str("runtime", e.RuntimeID).
			Msg("the ledger keeps an agent that is gone; the next start of the daemon clears it")
	}
}

// Close stops every runtime, all at once, and waits for it. Later starts are
// refused.
func (s *Starter) Close() {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		<-s.spawned
		return
	}
	s.starting.Wait()
	var stopping sync.WaitGroup
	for _, p := range s.list() {
		stopping.Go(func() { p.Stop(nil) })
	}
	stopping.Wait()
	close(s.spawns)
	<-s.spawned
}

func (s *Starter) list() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Process, 0, len(s.running))
	for p := range s.running {
		all = append(all, p)
	}
	return all
}

func (s *Starter) remove(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, p)
}

// newRuntimeID returns 128 random bits.
func newRuntimeID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
