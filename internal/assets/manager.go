package assets

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// MaxFileBytes is the largest file that is moved: what the existing SDK allows.
const MaxFileBytes = 100 << 20

// Defaults of [Config].
const (
	DefaultTicketLife      = 300 * time.Second // as the SDK expects
	DefaultIdleTimeout     = 60 * time.Second  // a suspended laptop's page is given up on
	DefaultTransferTimeout = 15 * time.Minute  // 100 MiB at 120 kB/s
	DefaultMaxUploads      = 16                // at 256 KiB each, 4 MiB of memory
	DefaultMaxDownloads    = 16

	// A browser reads the answer to an upload only once it has sent all of it:
	// what is refused is read to its end, but not for ever.
	DefaultDrainTimeout = 10 * time.Second
	DefaultDrainBytes   = 128 << 20
)

// Config is what a Manager works with. Threads and HTTPEndpoint are needed; a
// zero duration or limit stands for its default.
type Config struct {
	Threads      Threads
	HTTPEndpoint func() string // host:port of the HTTP listener; "" = it does not run
	// Now is time.Now if it is nil. Tickets live by its monotonic reading, so that
	// setting the system's clock neither ends nor prolongs them.
	Now        func() time.Time
	Log        zerolog.Logger
	Registerer prometheus.Registerer // nil = no metrics

	TicketLife      time.Duration // from the making of a ticket to its last use
	IdleTimeout     time.Duration // for each read of a body and each write of an answer
	TransferTimeout time.Duration // for a whole transfer
	DrainTimeout    time.Duration // for the rest of a refused body
	DrainBytes      int64         // of a refused body that are read at most
	MaxUploads      int           // that run at once, over all threads
	MaxDownloads    int           // likewise
}

// Manager keeps tickets and runs transfers. Make one with [New].
type Manager struct {
	cfg     Config
	metrics *metrics

	mu      sync.Mutex
	tickets map[string]*ticket // by id, of both directions
	desks   map[string]*desk   // by thread id
	running [directions]int    // transfers, by direction
	swept   time.Time          // when old tickets were last thrown away
	closed  bool
}

// New returns a Manager.
func New(cfg Config) *Manager {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	setDefault(&cfg.TicketLife, DefaultTicketLife)
	setDefault(&cfg.IdleTimeout, DefaultIdleTimeout)
	setDefault(&cfg.TransferTimeout, DefaultTransferTimeout)
	setDefault(&cfg.DrainTimeout, DefaultDrainTimeout)
	setDefault(&cfg.DrainBytes, DefaultDrainBytes)
	setDefault(&cfg.MaxUploads, DefaultMaxUploads)
	setDefault(&cfg.MaxDownloads, DefaultMaxDownloads)
	m := &Manager{cfg: cfg, tickets: map[string]*ticket{}, desks: map[string]*desk{}}
	m.metrics = newMetrics(cfg.Registerer, m.count)
	return m
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// count returns how many transfers of a direction run.
func (m *Manager) count(d direction) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(m.running[d])
}

// limit returns how many transfers of a direction may run at once.
func (m *Manager) limit(d direction) int {
	if d == upload {
		return m.cfg.MaxUploads
	}
	return m.cfg.MaxDownloads
}

// endpoint returns where transfers are served.
func (m *Manager) endpoint() (string, error) {
	if at := m.cfg.HTTPEndpoint(); at != "" {
		return at, nil
	}
	return "", fault.New(fault.AssetUploadServerUnavailable, "")
}

// Abort makes all tickets of a thread void, cuts its transfers off and returns
// when they have let go of their files; nothing of them appears in the workspace
// afterwards. Until Reopen or Ended the thread is refused THREAD_ENDED. Called
// when the thread's end begins.
//
// It has no deadline: what is waited for is the end of a write, of an fsync or
// of a rename on the disk of the workspace, never the network or a Stage that
// honours its context.
func (m *Manager) Abort(threadID string) {
	m.mu.Lock()
	d := m.desk(threadID)
	d.shut, d.over = true, false
	m.void(d)
	cut := d.running()
	m.mu.Unlock()
	stopAll(cut)
}

// Reopen takes a thread's tickets again: its end was refused, or it was resumed.
func (m *Manager) Reopen(threadID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.desks[threadID]; d != nil {
		d.shut, d.over = false, false
		m.tidy(threadID, d)
	}
}

// Ended lets a thread go: its end is durable, so that from here [Threads] tells
// that it has ended. Called after Abort, so that ended threads cost no memory.
func (m *Manager) Ended(threadID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.desks[threadID]; d != nil {
		d.over = true
		m.tidy(threadID, d)
	}
}

// Close cuts off all transfers and waits for them as Abort does. Nothing is
// begun any more.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	var cut []*transfer
	for _, d := range m.desks {
		m.void(d)
		cut = append(cut, d.running()...)
	}
	m.mu.Unlock()
	stopAll(cut)
}

func stopAll(transfers []*transfer) {
	for _, t := range transfers {
		t.stop()
	}
	for _, t := range transfers {
		<-t.released
	}
}
