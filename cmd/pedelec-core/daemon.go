package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/assets"
	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/inspect"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/lifecycle"
	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/mcp"
	"github.com/pedelec/pedelec-core/internal/proc"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/acp"
	"github.com/pedelec/pedelec-core/internal/provider/claude"
	"github.com/pedelec/pedelec-core/internal/provider/codex"
	"github.com/pedelec/pedelec-core/internal/settings"
	"github.com/pedelec/pedelec-core/internal/store"
	"github.com/pedelec/pedelec-core/internal/workspace"
)

// anyPort is the address of a listener on a free port.
const anyPort = loopback.Host + ":0"

// clientsLimit is the share of a shutdown that clients get to take their answers.
const clientsLimit = 3 * time.Second

// webLimit is the same for what goes on over HTTP when all threads are closed.
const webLimit = time.Second

// guardAge is how long a change of requireToken in the file may go unnoticed.
const guardAge = 100 * time.Millisecond

// Limits of HTTP connections.
const (
	maxWebConns = 1024            // at once, WebSockets included; those of TCP are the server's to bound
	headerLimit = 5 * time.Second // for a request's header to arrive, also a WebSocket's
	bodyLimit   = 5 * time.Second // for its body, where no handler sets another
	idleLimit   = time.Minute     // between two requests

	// takeLimit is for an answer to be taken. What takes longer, such as a transfer,
	// a tool call or a stream, gives each of its writes a time of its own.
	takeLimit = 30 * time.Second
)

// core is the running daemon: every part, in the order in which it is opened.
type core struct {
	home   string
	log    zerolog.Logger
	redact *fault.Redactor
	short  durations
	lock   *instanceLock // of home; held for as long as the daemon lives

	instance string
	token    string
	metrics  registry

	store      *store.Store
	settings   *settings.File
	starter    *proc.Starter
	providers  *provider.Manager
	workspaces *ownWorkspaces
	tools      *mcp.Manager
	transfers  *assets.Manager
	threads    *lifecycle.Service
	peers      loopback.PeerCheck
	inspector  *inspect.Inspector
	server     *ipc.Server
	http       *http.Server
	web        string           // host:port of the HTTP listener; "" until it is bound
	runtime    *ipc.RuntimeFile // nil until it is written

	background sync.WaitGroup // what runs until Close
	quit       context.CancelFunc

	stopOnce      sync.Once
	stopRequested chan struct{} // closed when somebody asked for the end
}

func newDaemon(home string, log zerolog.Logger, redact *fault.Redactor, short durations) *core {
	return &core{
		home: home, log: log, redact: redact, short: short,
		metrics:       prometheus.NewRegistry(),
		stopRequested: make(chan struct{}),
	}
}

// Open brings the daemon to where it answers clients. Nothing slow happens
// before: looking for agents and clearing up after a crash go on behind it. When
// it fails, everything that it opened is closed again. When somebody asks for the
// end meanwhile, it stops before it listens, and what is open is Close's.
func (d *core) Open(ctx context.Context) (err error) {
	ctx, d.quit = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close(ctx))
		}
	}()
	if err := fault.Point("daemon.open.before"); err != nil {
		return err
	}
	d.instance = newInstanceID()
	d.token = loopback.NewToken()
	d.redact.Add(d.token)
	d.openSettings()
	if err := d.openStore(); err != nil {
		return errors.Join(err, removeDeadRuntimeFiles(d.home))
	}
	// Not before the database is ours, too: somebody may have removed the lock's
	// file while a daemon serves.
	if err := ipc.RemoveStaleRuntimeFiles(d.home); err != nil {
		return fmt.Errorf("the runtime file of an earlier run cannot be removed: %w", err)
	}
	if err := d.settings.RemoveLeftovers(); err != nil {
		d.log.Warn().Err(err).Msg("what an earlier run left of writing the settings cannot be removed; API keys may be in it")
	}
	if err := fault.Point("daemon.open.cleared"); err != nil {
		return err
	}
	d.linkCLI()
	d.openProviders()
	d.openTools()
	d.openTransfers()
	d.openThreads()
	d.peers = loopback.NewPeerCheck(d.warnOfPeers)
	d.openInspector()
	if err := d.registerMetrics(); err != nil {
		return err
	}
	if d.isLeaving() {
		return nil
	}
	if err := d.listen(ctx); err != nil {
		return err
	}
	if err := fault.Point("daemon.open.told"); err != nil {
		return err
	}
	d.begin(ctx)
	return nil
}

func (d *core) openSettings() {
	d.settings = settings.New(filepath.Join(d.home, settingsFile))
	d.settings.OnLoad = d.settingsChanged
	d.settings.GuardAge = guardAge
	d.settings.Available = d.providerAvailable
	d.settings.Current() // reads the file, so that its problems are told at the start
}

// settingsChanged is told of each new content of the settings file.
func (d *core) settingsChanged(s settings.Settings, problems []settings.Problem, err error) {
	for _, secret := range s.Secrets() {
		d.redact.Add(secret)
	}
	if err != nil {
		d.log.Error().Err(err).Str("path", filepath.Join(d.home, settingsFile)).Msg("the settings file cannot be read; what was last read of it stays in force, or else the defaults")
	}
	for _, p := range problems {
		d.log.Warn().Str("entry", p.Path).Str("problem", p.Msg).Msg("an entry of the settings file cannot be used")
	}
}

// openStore opens the database with the retention of the settings.
func (d *core) openStore() error {
	keep := d.settings.Current().Retention
	s := store.New(storePath(d.home))
	s.Log = d.log
	s.InstanceID = d.instance
	s.MaxJournalEvents = keep.JournalEvents
	s.MaxJournalBytes = keep.JournalBytes
	s.MaxStoreBytes = keep.StoreBytes
	if err := s.Open(); err != nil {
		return err
	}
	d.store = s
	return nil
}

// linkCLI gives agents the command by which they reach frontend tools. Without it
// those that speak MCP still do.
func (d *core) linkCLI() {
	if err := linkCLI(d.home); err != nil {
		d.log.Error().Err(err).Msg("pedelec-cli cannot be put into the home folder; agents that need it cannot call frontend tools")
	}
}

func (d *core) openProviders() {
	d.starter = proc.New(d.store.KV(store.Processes), d.instance, d.log)
	d.starter.HoldStarts() // until what an earlier run left is cleared
	home, err := os.UserHomeDir()
	if err != nil {
		d.log.Warn().Err(err).Msg("your home folder is unknown; agents are looked for on PATH only")
	}
	cfg := provider.Config{
		Starter: d.starter,
		Log:     d.log,
		Drivers: []provider.Driver{
			codex.New().Driver(), acp.OpenCode().Driver(), acp.Cursor().Driver(), claude.New().Driver(),
		},
		Override:   d.override,
		HomeDir:    d.home,
		Environ:    os.Environ(),
		UserHome:   home,
		LoginShell: provider.LoginShell(),
		Redactor:   d.redact,
	}
	d.short.set("probe", &cfg.ProbeTimeout)
	d.short.set("idle-stop", &cfg.IdleStop)
	d.short.set("back-off", &cfg.MaxBackoff)
	d.providers = provider.New(cfg)
}

// openTools makes what serves frontend tools to agents over MCP.
func (d *core) openTools() {
	cfg := mcp.Config{Durations: mcp.DefaultDurations, Log: d.log}
	d.short.set("tool-progress", &cfg.Durations.Progress)
	d.tools = mcp.New(cfg)
}

// openTransfers makes what moves files between pages and agents.
func (d *core) openTransfers() {
	cfg := assets.Config{
		Threads:      assetThreads{d},
		HTTPEndpoint: func() string { return d.web },
		Log:          d.log,
		Registerer:   d.metrics,
	}
	d.short.set("ticket-life", &cfg.TicketLife)
	d.short.set("transfer-idle", &cfg.IdleTimeout)
	d.transfers = assets.New(cfg)
}

func (d *core) openThreads() {
	d.workspaces = newOwnWorkspaces(workspace.New(filepath.Join(d.home, workspaceFolder)), d.log)
	now := d.settings.Current()
	times := lifecycle.DefaultDurations
	times.Start = now.Watchdogs.SessionStart
	times.Silence = now.Watchdogs.Silence
	for name, field := range lifecycleDurations(&times) {
		d.short.set(name, field)
	}
	d.threads = lifecycle.New(lifecycle.Config{
		Store:      d.store,
		Runtimes:   d.providers,
		Workspaces: d.workspaces,
		Transfers:  transfers{d.transfers},
		Profiles:   profiles{d.settings},
		ToolServer: d.tools,
		CLI:        cliPath(d.home),
		Encode:     ipc.EncodeEvent,
		Instance:   d.instance,
		Durations:  times,
		Retention:  lifecycle.Retention{Ended: now.Retention.EndedThreads, Idle: now.Retention.IdleThreads, StoreBytes: now.Retention.StoreBytes},
		Log:        d.log,
		Metrics:    d.metrics,
	})
	d.tools.Threads = d.threads
}

// listen binds both listeners, serves them, and tells where they are.
func (d *core) listen(ctx context.Context) error {
	var options loopback.Options
	d.short.set("keep-alive", &options.KeepAlive)
	tcp, err := loopback.Listen(ctx, anyPort, options)
	if err != nil {
		return err
	}
	options.MaxConns = maxWebConns
	web, err := loopback.Listen(ctx, anyPort, options)
	if err != nil {
		return errors.Join(err, tcp.Close())
	}
	if err := d.countRefused(web); err != nil {
		return errors.Join(err, tcp.Close(), web.Close())
	}
	cfg := ipc.Config{
		Threads:    d.threads,
		Providers:  d.providers,
		Settings:   d.settings,
		Picker:     picker{d.settings},
		Operator:   d,
		Origins:    d.store.KV(store.Origins),
		Assets:     assetRequests{d.transfers},
		Inspector:  inspectLinks{d},
		Version:    version,
		InstanceID: d.instance,
		Token:      d.token,
		Peers:      d.peers,
		Log:        d.log,
		Registerer: d.metrics,
		Gatherer:   d.metrics,
		Ready:      d.ready,
	}
	d.short.set("write-timeout", &cfg.WriteTimeout)
	d.short.set("first-request", &cfg.FirstRequest)
	d.short.set("approval", &cfg.Approval)
	d.short.set("ping", &cfg.Ping)
	d.short.set("pong", &cfg.Pong)
	if d.server, err = ipc.New(cfg); err != nil {
		return errors.Join(err, tcp.Close(), web.Close())
	}
	taking := takeLimit
	d.short.set("write-timeout", &taking)
	d.http = &http.Server{
		Handler:           loopback.LimitBodies(d.routes(), bodyLimit),
		ConnContext:       inspect.KeepConn,
		ReadHeaderTimeout: headerLimit,
		WriteTimeout:      taking,
		IdleTimeout:       idleLimit,
		MaxHeaderBytes:    loopback.MaxHeaderBytes,
		ErrorLog:          stdlog.New(io.Discard, "", 0), // it would tell what strangers send
	}
	d.web = web.Addr().String()
	d.tools.BaseURL = "http://" + d.web
	d.background.Go(func() { d.serveTCP(tcp) })
	d.background.Go(func() { d.serveHTTP(web) })
	if err := fault.Point("daemon.open.listening"); err != nil {
		return err
	}
	return d.tellWhere(tcp.Addr())
}

// warnOfPeers tells the operator that the system does not keep other users out.
func (d *core) warnOfPeers() {
	d.log.Warn().Msg("this system does not tell which user a connection comes from; the setting requireToken keeps other users out")
}

// routes are all that the HTTP listener serves. Each part applies its own rules
// for Host, Origin and secret.
func (d *core) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", d.server.HTTPHandler())
	mux.Handle(mcp.Route, d.tools)
	mux.Handle("/uploads/", d.transfers.Handler())
	mux.Handle("/downloads/", d.transfers.Handler())
	mux.Handle(inspect.Route, d.inspector.Handler())
	mux.Handle(inspect.Route+"/", d.inspector.Handler())
	return mux
}

func (d *core) serveTCP(l net.Listener) {
	if err := d.server.ServeTCP(l); err != nil && !errors.Is(err, ipc.ErrServerClosed) {
		d.log.Error().Err(err).Msg("clients cannot connect any more; leaving")
		d.Shutdown()
	}
}

func (d *core) serveHTTP(l net.Listener) {
	if err := d.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		d.log.Error().Err(err).Msg("tools, files, health and metrics cannot be asked for any more")
	}
}

// begin starts what may take its time, once clients are answered.
func (d *core) begin(ctx context.Context) {
	d.background.Go(func() { d.clearProcesses(ctx) })
	d.background.Go(func() { d.clearWorkspaces(ctx) })
	d.background.Go(func() { d.watchRuntimeFiles(ctx) })
	d.providers.Start()
	d.threads.Start()
}

// clearProcesses ends what an earlier run left running; agents start after it.
// After a clean exit the ledger is empty, and this is one read.
func (d *core) clearProcesses(ctx context.Context) {
	if err := d.starter.Sweep(ctx); err != nil && ctx.Err() == nil {
		d.log.Error().Err(err).Msg("processes of an earlier run may be left; the next start looks again")
	}
}

// clearWorkspaces removes temporary workspaces of earlier runs.
func (d *core) clearWorkspaces(ctx context.Context) {
	for _, left := range d.workspaces.clear(ctx) {
		if ctx.Err() == nil {
			d.log.Warn().Err(left.Err).Str("path", left.Path).Msg("a temporary workspace of an earlier run cannot be removed; the next start tries again")
		}
	}
}

// Close puts everything away: threads are told first, then clients and, at the same
// time, agents, then files. It needs no successful Open. ctx bounds the waits, not
// the order.
func (d *core) Close(ctx context.Context) error {
	var errs []error
	if d.server != nil {
		d.server.Leave()
		d.threads.Drain(ctx)
	}
	agents := d.closeAgents(ctx)
	if d.server != nil {
		errs = append(errs, d.closeClients(ctx))
	}
	if d.threads != nil {
		errs = append(errs, d.threads.Close(ctx))
	}
	if d.http != nil {
		errs = append(errs, d.closeWeb(ctx))
	}
	errs = append(errs, <-agents)
	d.quit()
	d.background.Wait()
	if d.workspaces != nil {
		d.removeWorkspaces(ctx)
	}
	if d.runtime != nil {
		errs = append(errs, d.runtime.Remove(d.home))
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	return errors.Join(errs...)
}

// closeAgents begins to end all agents and tells when they are gone. No turn runs
// any more, and one that takes its time must not use up that of clients.
func (d *core) closeAgents(ctx context.Context) <-chan error {
	gone := make(chan error, 1)
	if d.providers == nil {
		close(gone)
		return gone
	}
	go func() { // Close waits for it
		err := d.providers.Close(ctx)
		d.starter.Close()
		gone <- err
	}()
	return gone
}

// closeClients answers what was asked and closes all connections. A client that
// does not read must not use up the time that agents need to stop.
func (d *core) closeClients(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clientsLimit)
	defer cancel()
	d.transfers.Close()
	d.inspector.Close()
	return unlessLate(d.server.Shutdown(ctx))
}

// closeWeb ends what is left on the HTTP listener, once no thread opens tools any
// more: agents keep a connection open for theirs.
func (d *core) closeWeb(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, webLimit)
	defer cancel()
	d.background.Go(d.tools.Shutdown)
	defer d.http.Close() // its error is that of the listener, which is closed by then
	return unlessLate(d.http.Shutdown(ctx))
}

// unlessLate forgives a shutdown that was cut short: whoever was cut off had his
// time.
func unlessLate(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// removeWorkspaces removes the temporary workspaces of this run at its end.
func (d *core) removeWorkspaces(ctx context.Context) {
	for _, left := range d.workspaces.RemoveAllManaged(ctx, nil) {
		d.log.Warn().Err(left.Err).Str("path", left.Path).Msg("a temporary workspace cannot be removed; the next start tries again")
	}
}

// ready tells whether the daemon can do its work, for /readyz.
func (d *core) ready() error {
	if d.isLeaving() {
		return errors.New("leaving")
	}
	return d.store.Healthy()
}

// isLeaving reports whether somebody asked for the end.
func (d *core) isLeaving() bool {
	select {
	case <-d.stopRequested:
		return true
	default:
		return false
	}
}

// Backup writes a consistent copy of the database to a new file.
func (d *core) Backup(ctx context.Context, path string) (int64, error) {
	return d.store.Backup(ctx, path)
}

// Shutdown asks for a clean end and returns at once.
func (d *core) Shutdown() { d.stopOnce.Do(func() { close(d.stopRequested) }) }

// providerAvailable tells the settings whether a provider can be the default.
func (d *core) providerAvailable(code string) (ok bool, why string) {
	for _, p := range d.providers.List(context.Background()) {
		if p.Provider.String() == code {
			return p.Available, p.Error
		}
	}
	return false, "there is no such provider"
}
