package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/proc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Defaults of Config's durations.
const (
	DefaultProbeTimeout = 5 * time.Second  // one run of a program that is asked for its version or help; "opencode --version" takes 1 s on an idle machine
	DefaultFindTimeout  = 5 * time.Second  // how long an operation waits for its provider's probe
	DefaultScanTimeout  = 15 * time.Second // all providers together
	DefaultIdleStop     = 30 * time.Minute // a shared runtime without a bound thread stops; opencode's 400 MB never shrink
	DefaultMaxBackoff   = fullDelay        // the longest that a program which fails again and again is left alone
)

// Override is what the settings say of a provider's program.
type Override struct {
	Command []string          // replaces the program and its leading arguments; empty = discover it
	Env     map[string]string // added to its environment
}

// A Starter starts programs; *proc.Starter is one.
type Starter interface {
	Start(ctx context.Context, spec proc.Spec) (*proc.Process, error)
}

// Config is what a manager needs. Zero durations mean their defaults.
type Config struct {
	Starter  Starter
	Log      zerolog.Logger
	Drivers  []Driver
	Override func(thread.Provider) Override // nil = none
	HomeDir  string                         // the daemon's; its bin folder goes first on PATH
	Environ  []string                       // the daemon's environment; nil = os.Environ()
	UserHome string                         // "" = no well-known folders are searched
	// LoginShell is the shell that is asked for a login's PATH; "" = none is.
	LoginShell string
	Redactor   *fault.Redactor

	ProbeTimeout time.Duration
	FindTimeout  time.Duration
	ScanTimeout  time.Duration
	IdleStop     time.Duration
	MaxBackoff   time.Duration
}

func (c Config) withDefaults() Config {
	for field, def := range map[*time.Duration]time.Duration{
		&c.ProbeTimeout: DefaultProbeTimeout,
		&c.FindTimeout:  DefaultFindTimeout,
		&c.ScanTimeout:  DefaultScanTimeout,
		&c.IdleStop:     DefaultIdleStop,
		&c.MaxBackoff:   DefaultMaxBackoff,
	} {
		if *field == 0 {
			*field = def
		}
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Redactor == nil {
		c.Redactor = &fault.Redactor{}
	}
	if c.Override == nil {
		c.Override = func(thread.Provider) Override { return Override{} }
	}
	return c
}

// binDir is where the link to pedelec-cli stands.
func (c Config) binDir() string {
	if c.HomeDir == "" {
		return ""
	}
	return filepath.Join(c.HomeDir, "bin")
}

// runtimeFile tells the agents' tools where the daemon is; it holds no token.
func (c Config) runtimeFile() string { return filepath.Join(c.HomeDir, "agent-runtime.json") }

// server opens the sessions of one provider.
type server interface {
	attach(context.Context, thread.SessionSpec, thread.Sink) (thread.Attachment, error)
	infos() []thread.RuntimeInfo
	close()
}

// Manager serves every provider.
type Manager struct {
	cfg       Config
	discovery *discovery
	slots     map[thread.Provider]server

	ctx  context.Context // ends when Close begins
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup // starts, supervisors, probes
}

// spawn runs a task that Close waits for. It reports false once Close has begun.
func (m *Manager) spawn(task func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.tasks.Go(task)
	return true
}

// New returns a manager. Nothing runs before Start or the first Attach.
func New(cfg Config) *Manager {
	cfg = cfg.withDefaults()
	m := &Manager{cfg: cfg, slots: map[thread.Provider]server{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.discovery = newDiscovery(m)
	for _, d := range cfg.Drivers {
		if d.PerThread != nil {
			m.slots[d.Provider] = newPool(m, d)
			continue
		}
		m.slots[d.Provider] = newSlot(m, d, nil)
	}
	return m
}

// Start begins the first scan in the background.
func (m *Manager) Start() {
	m.spawn(func() {
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.ScanTimeout)
		defer cancel()
		m.discovery.scan(ctx)
	})
}

// List tells which providers can be used, in the documented order. It waits for
// the first scan, at most as long as a scan may take.
func (m *Manager) List(ctx context.Context) []thread.ProviderStatus {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ScanTimeout)
	defer cancel()
	return m.discovery.list(ctx)
}

// Refresh probes every provider again and tells the result.
func (m *Manager) Refresh(ctx context.Context) []thread.ProviderStatus {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ScanTimeout)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	return m.discovery.scan(ctx)
}

// Attach opens a provider session for a thread, starting the program if need be.
// The error is a *fault.Error: PROVIDER_NOT_AVAILABLE,
// PROVIDER_RUNTIME_START_FAILED, PROVIDER_AUTH_REQUIRED, PROVIDER_REQUEST_FAILED,
// PROVIDER_TIMEOUT, PROVIDER_RUNTIME_DISCONNECTED, PROVIDER_PROTOCOL_ERROR,
// PROVIDER_UNSUPPORTED, CORE_RUNTIME_UNAVAILABLE; or ctx's error when the caller
// left.
func (m *Manager) Attach(ctx context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, error) {
	s := m.slots[spec.Provider]
	if s == nil {
		return thread.Attachment{}, fault.New(fault.ProviderNotAvailable, unsupported(spec.Provider)).With("provider", spec.Provider.String())
	}
	a, err := s.attach(ctx, spec, sink)
	if errors.Is(err, context.DeadlineExceeded) {
		return a, fault.Wrap(fault.ProviderTimeout, "provider.attach", err,
			spec.Provider.Name()+" did not open a session in time.").With("provider", spec.Provider.String())
	}
	return a, err
}

// Runtimes describes the processes that run.
func (m *Manager) Runtimes() []thread.RuntimeInfo {
	var infos []thread.RuntimeInfo
	for _, p := range thread.Providers {
		if s := m.slots[p]; s != nil {
			infos = append(infos, s.infos()...)
		}
	}
	return infos
}

// Close stops every runtime and waits until nothing of them is left, or until ctx
// ends; the rest goes on stopping then.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	for _, s := range m.slots {
		s.close()
	}
	done := make(chan struct{})
	go func() { // waited for below, or ends with the last task
		m.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("provider: close: %w", ctx.Err())
	}
}

// unsupported is the sentence of a provider without a driver.
func unsupported(p thread.Provider) string {
	return p.Name() + " is not supported by this version yet."
}
