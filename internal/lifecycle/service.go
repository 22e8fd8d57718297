package lifecycle

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Service is every thread of this daemon. Its methods are what clients ask for;
// they are safe for concurrent use.
type Service struct {
	cfg      Config
	metrics  *metrics
	registry registry
	callers  atomic.Uint64
	closing  atomic.Bool

	kill   context.Context // done when everything must stop now
	stop   context.CancelFunc
	actors sync.WaitGroup // actors, which end with their thread or with kill
	tasks  sync.WaitGroup // effects and the sweeper

	mu     sync.Mutex
	closed bool // nothing is begun any more
}

// New returns a service. Nothing runs before the first request or Start.
func New(cfg Config) *Service {
	if cfg.Durations == (Durations{}) {
		cfg.Durations = DefaultDurations
	}
	if cfg.Transfers == nil {
		cfg.Transfers = noTransfers{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{cfg: cfg, registry: registry{entries: map[string]*entry{}}}
	s.metrics = newMetrics(cfg.Metrics, func() float64 { return float64(len(s.registry.all())) })
	s.kill, s.stop = context.WithCancel(context.Background())
	return s
}

// Start begins the background work: settling threads that nobody asks for, and
// retention.
func (s *Service) Start() { s.spawn(s.sweep) }

// spawn runs f in a goroutine that Close waits for.
// After Close it does nothing. A panic is counted and logged.
func (s *Service) spawn(f func()) { s.begin(&s.tasks, f) }

// begin starts a goroutine that Close waits for, unless Close has begun.
func (s *Service) begin(group *sync.WaitGroup, f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	group.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				s.panicked(p, "background work")
			}
		}()
		f()
	})
	return true
}

// panicked counts and logs a panic that was recovered.
func (s *Service) panicked(p any, where string) {
	s.metrics.panics.Inc()
	s.cfg.Log.Error().Interface("panic", p).Str("where", where).Bytes("stack", debug.Stack()).Msg("a panic was recovered")
}

// Close stops everything and waits for it, or for ctx.
func (s *Service) Close(ctx context.Context) error {
	s.closing.Store(true)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	done := make(chan struct{})
	go func() {
		s.actors.Wait()
		s.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acquire returns the actor of a thread on which the caller may act. The result
// must be released.
func (s *Service) acquire(ctx context.Context, c thread.Caller, id string) (*actor, error) {
	a, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := s.authorise(c, a); err != nil {
		s.registry.release(a)
		return nil, err
	}
	return a, nil
}

func (s *Service) authorise(c thread.Caller, a *actor) error {
	if c.MayActOn(a.owner) {
		return nil
	}
	return fault.New(fault.ThreadAccessDenied, "This thread belongs to another origin.").With("threadId", a.id)
}

// open returns the started actor of a thread. The result must be released.
func (s *Service) open(ctx context.Context, id string) (*actor, error) {
	a, first, err := s.find(ctx, id)
	if first {
		a.start()
	}
	return a, err
}

// find is open for one who starts the actor itself, if it is the first.
func (s *Service) find(ctx context.Context, id string) (a *actor, first bool, err error) {
	if id == "" || len(id) > maxIDBytes {
		return nil, false, notFound(id)
	}
	return s.registry.acquire(ctx, id, s.load)
}

// load reads a thread and makes its actor.
func (s *Service) load(id string) (*actor, error) {
	if err := fault.Point(PointLoad); err != nil {
		return nil, fault.From(err)
	}
	loaded, err := s.cfg.Store.Load(id)
	if fault.Is(err, fault.ThreadNotFound) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, err
	}
	active, err := s.activeOperation(&loaded.Record)
	if err != nil {
		return nil, err
	}
	s.removeStaged(&loaded.Record)
	return s.newActor(loaded, active), nil
}

// removeStaged removes what an upload left behind when an earlier daemon died.
// Settling then forgets its name, also when it could not be removed: it is a
// hidden file in the thread's own folder, and in nobody's way.
func (s *Service) removeStaged(r *thread.Record) {
	if r.StagedUpload == "" || r.Instance == s.cfg.Instance {
		return
	}
	if err := s.cfg.Transfers.RemoveStaged(r.Workspace.Path, r.StagedUpload); err != nil {
		s.cfg.Log.Warn().Err(err).Str(logThread, r.ID).Msg("the rest of an interrupted upload could not be removed")
	}
	_ = fault.Point(PointUnstaged)
}

// activeOperation reads the operation that the record names as active, so that
// its outcome can be added to it.
func (s *Service) activeOperation(r *thread.Record) (thread.Operation, error) {
	if r.Active == nil {
		return thread.Operation{}, nil
	}
	op, found, err := s.cfg.Store.Operation(r.ID, r.Active.ID)
	if err != nil {
		return thread.Operation{}, err
	}
	if !found {
		op = thread.Operation{ID: r.Active.ID, Kind: r.Active.Kind, StartedAt: r.Active.StartedAt}
	}
	return op, nil
}

// checkWorkspace looks at the workspace of a thread that is to be resumed.
func (s *Service) checkWorkspace(id string, w thread.Workspace) *fault.Error {
	reason := ""
	if w.Managed && w.Instance != s.cfg.Instance {
		reason = "the managed workspace was removed when the daemon restarted"
	} else if err := s.cfg.Workspaces.Reopen(w.Path); err != nil {
		reason = err.Error()
	}
	if reason == "" {
		return nil
	}
	return fault.New(fault.WorkspaceOpenFailed, "The thread's workspace cannot be opened any more: "+reason+".").
		With("threadId", id).With("workspacePath", w.Path).With("error", reason)
}
