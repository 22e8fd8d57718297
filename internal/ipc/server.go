package ipc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/loopback"
)

// Waits of a forced shutdown.
const (
	answerGrace = 500 * time.Millisecond // for requests that are given up to be answered so
	forceGrace  = time.Second            // for handlers to notice that their connection is gone
)

// Keys of log lines.
const (
	keyThread  = "thread"
	keyRequest = "request"
	keyOrigin  = "origin"
)

// Config is what a [Server] is made of. Threads, Providers, Settings, Operator,
// Origins and Token are needed; Picker, Assets and Inspector may be nil.
type Config struct {
	Threads   Threads
	Providers Providers
	Settings  Settings
	Picker    Picker // nil: pick_workspace_folder fails
	Operator  Operator
	Origins   OriginStore
	Assets    Assets    // nil: files cannot be moved
	Inspector Inspector // nil: create_inspect_link fails

	Version    string // of the release, such as 1.2.3
	InstanceID string
	Token      string // 64 hex characters

	// Peers tells whose connections are accepted; nil = our own user's, where
	// the system can tell.
	Peers loopback.PeerCheck

	Log        zerolog.Logger
	Registerer prometheus.Registerer // nil: metrics are kept to ourselves
	Gatherer   prometheus.Gatherer   // what /metrics shows; nil: what was registered with a nil Registerer
	// Ready is what /readyz asks; nil = always ready. What it does not like is
	// logged.
	Ready func() error

	// Durations; 0 = the default.
	WriteTimeout time.Duration // see [DefaultWriteTimeout]
	FirstRequest time.Duration // see [DefaultFirstRequest]
	Drain        time.Duration // see [DefaultDrain]
	Linger       time.Duration // see [DefaultLinger]
	Ping         time.Duration // see [DefaultPing]
	Pong         time.Duration // see [DefaultPong]
	Approval     time.Duration // see [DefaultApproval]
	// Numbers of connections; 0 = the constant of the same name.
	MaxConnections int // TCP
	MaxSockets     int // WebSockets
}

// Server serves the wire protocol.
type Server struct {
	threads   Threads
	providers Providers
	settings  Settings
	picker    Picker
	operator  Operator
	assets    Assets
	origins   *origins
	peers     loopback.PeerCheck
	token     string
	pong      []byte // the encoded result of ping
	lastPong  []byte // the same once the daemon leaves
	log       zerolog.Logger
	metrics   *metrics
	gatherer  prometheus.Gatherer
	ready     func() error
	unready   atomic.Pointer[string] // what ready said last, "" = it was; nil = it was never asked
	config    Config

	base    context.Context // of all requests; ends when a shutdown is forced
	force   context.CancelFunc
	serving context.Context // ends when a shutdown begins: nobody is waited for any more
	close   context.CancelFunc
	told    atomic.Bool    // the daemon leaves, see Leave
	leaving atomic.Bool    // Shutdown was called
	tasks   sync.WaitGroup // accept loops and connections

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	sockets   sockets
}

// ErrServerClosed is what [Server.ServeTCP] returns after [Server.Shutdown].
var ErrServerClosed = errors.New("ipc: server closed")

// New returns a server that listens nowhere yet.
func New(cfg Config) (*Server, error) {
	if cfg.Threads == nil || cfg.Providers == nil || cfg.Settings == nil || cfg.Operator == nil || cfg.Origins == nil || cfg.Token == "" {
		return nil, errors.New("ipc: Threads, Providers, Settings, Operator, Origins and Token are needed")
	}
	own := prometheus.NewRegistry()
	if cfg.Registerer == nil {
		cfg.Registerer = own
	}
	if cfg.Gatherer == nil {
		cfg.Gatherer = own
	}
	if cfg.Peers == nil {
		cfg.Peers = loopback.NewPeerCheck(nil)
	}
	cfg.WriteTimeout = orDefault(cfg.WriteTimeout, DefaultWriteTimeout)
	cfg.FirstRequest = orDefault(cfg.FirstRequest, DefaultFirstRequest)
	cfg.Drain = orDefault(cfg.Drain, DefaultDrain)
	cfg.Linger = orDefault(cfg.Linger, DefaultLinger)
	cfg.Ping = orDefault(cfg.Ping, DefaultPing)
	cfg.Pong = orDefault(cfg.Pong, DefaultPong)
	cfg.Approval = orDefault(cfg.Approval, DefaultApproval)
	cfg.MaxConnections = orDefault(cfg.MaxConnections, MaxConnections)
	cfg.MaxSockets = orDefault(cfg.MaxSockets, MaxSockets)
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("ipc: register metrics: %w", err)
	}
	ping := PingResult{
		Connected:    true,
		Version:      cfg.Version,
		ProcessID:    os.Getpid(),
		InstanceID:   cfg.InstanceID,
		Protocol:     Protocol,
		Capabilities: Capabilities,
	}
	pong, err := json.Marshal(ping)
	if err != nil {
		return nil, fmt.Errorf("ipc: encode ping: %w", err)
	}
	ping.Leaving = true
	lastPong, err := json.Marshal(ping)
	if err != nil {
		return nil, fmt.Errorf("ipc: encode ping: %w", err)
	}
	s := &Server{
		threads:   cfg.Threads,
		providers: cfg.Providers,
		settings:  cfg.Settings,
		picker:    cfg.Picker,
		operator:  cfg.Operator,
		assets:    cfg.Assets,
		origins:   openOrigins(cfg.Origins, cfg.Settings.AllowedOrigins, cfg.Log, cfg.Approval),
		peers:     cfg.Peers,
		token:     cfg.Token,
		pong:      pong,
		lastPong:  lastPong,
		log:       cfg.Log,
		metrics:   m,
		gatherer:  cfg.Gatherer,
		ready:     cfg.Ready,
		config:    cfg,
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
		sockets:   sockets{open: map[*socket]struct{}{}, byOrigin: map[string]int{}},
	}
	s.base, s.force = context.WithCancel(context.Background())
	s.serving, s.close = context.WithCancel(s.base)
	return s, nil
}

func orDefault[T comparable](given, standard T) T {
	var zero T
	if given == zero {
		return standard
	}
	return given
}

// ServeTCP accepts connections until [Server.Shutdown], after which it returns
// [ErrServerClosed], or until the listener fails. It closes the listener.
func (s *Server) ServeTCP(l net.Listener) error {
	defer func() { _ = l.Close() }() // closed before, at a shutdown
	if !s.enter(l) {
		return ErrServerClosed
	}
	defer s.leave(l)
	failures := acceptFailures{log: s.log}
	for {
		nc, err := l.Accept()
		if err == nil {
			s.start(nc)
			continue
		}
		if s.leaving.Load() {
			return ErrServerClosed
		}
		if !canAcceptLater(err) {
			return fmt.Errorf("ipc: accept: %w", err)
		}
		failures.add(err, time.Now())
		if !s.pause(acceptPause) {
			return ErrServerClosed
		}
	}
}

func (s *Server) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.base.Done():
		return false
	}
}

func (s *Server) enter(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	s.tasks.Add(1)
	return true
}

func (s *Server) leave(l net.Listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
	s.tasks.Done()
}

// start serves a connection on a goroutine of its own, or closes it when there
// are too many.
func (s *Server) start(nc net.Conn) {
	s.mu.Lock()
	if s.leaving.Load() || len(s.conns) >= s.config.MaxConnections {
		s.mu.Unlock()
		s.metrics.refused.Inc()
		_ = nc.Close() // nothing was promised on it
		return
	}
	c := s.newConn(nc)
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.metrics.connections.Inc()
	s.tasks.Go(func() {
		c.serve()
		s.metrics.connections.Dec()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// Leave makes pings and /readyz say that the daemon leaves; all else goes on
// until [Server.Shutdown].
func (s *Server) Leave() { s.told.Store(true) }

// Shutdown closes the listeners, answers what was received, tells subscribers
// what is ready, and closes all connections. When ctx ends first, requests are
// given up, and answered so, and connections are closed as they are; then ctx's
// error is returned. It returns when every goroutine of the server has returned,
// or, forced, 1.5 seconds later at the latest.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Leave()
	s.mu.Lock()
	s.leaving.Store(true)
	s.close()
	for l := range s.listeners {
		_ = l.Close() // its accept loop ends in any case
	}
	s.mu.Unlock()
	s.stopAll(finishLines)

	done := make(chan struct{})
	go func() { // ends with the last connection
		s.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.force()
		return nil
	case <-ctx.Done():
	}
	s.force()
	if !isDoneWithin(done, answerGrace) {
		s.stopAll(closeNow)
		isDoneWithin(done, forceGrace)
	}
	return ctx.Err()
}

func isDoneWithin(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// whileServing returns a context that ends with ctx and when a shutdown begins, for
// requests that wait for a person.
func (s *Server) whileServing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.serving, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

func (s *Server) stopAll(how ending) {
	s.mu.Lock()
	all := make([]side, 0, len(s.conns)+len(s.sockets.open))
	for c := range s.conns {
		all = append(all, c)
	}
	for c := range s.sockets.open {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.stop(how)
	}
}

// panicked counts and logs a recovered panic.
func (s *Server) panicked(p any) {
	s.metrics.panics.Inc()
	s.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("recovered from a panic in a connection")
}
