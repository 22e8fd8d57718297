package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/proc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// versionBytes is how much of a version line is shown.
const versionBytes = 100

// Program is an executable that was found and speaks the protocol.
type Program struct {
	Path       string   // absolute
	Lead       []string // arguments before the driver's own
	SearchPath string   // the PATH that found it, for its children
	Version    string   // what it says of itself
}

// discovery finds programs. A program that was found good is not asked again
// while its file stays the same; one that was not is asked at each find.
type discovery struct {
	m   *Manager
	cfg Config

	searches singleflight.Group

	mu      sync.Mutex
	dirs    []string // search folders; nil until they are known
	known   map[thread.Provider]found
	probes  map[thread.Provider]*probing
	scanned chan struct{} // closed after the first scan
	once    sync.Once
}

// found is the result of the latest probe.
type found struct {
	key     fileKey
	program Program
	err     *fault.Error
}

// fileKey tells whether a program is still the one that was probed.
type fileKey struct {
	path  string
	lead  string
	size  int64
	mtime time.Time
}

// probing is a probe that runs; several callers may wait for it.
type probing struct {
	done   chan struct{}
	result found
}

func newDiscovery(m *Manager) *discovery {
	return &discovery{
		m:       m,
		cfg:     m.cfg,
		known:   map[thread.Provider]found{},
		probes:  map[thread.Provider]*probing{},
		scanned: make(chan struct{}),
	}
}

// list returns what is known after the first scan.
func (d *discovery) list(ctx context.Context) []thread.ProviderStatus {
	select {
	case <-d.scanned:
	case <-ctx.Done():
	}
	return d.statuses()
}

// scan looks for every program anew and returns the result.
func (d *discovery) scan(ctx context.Context) []thread.ProviderStatus {
	d.mu.Lock()
	d.dirs = nil // PATH may have changed
	d.mu.Unlock()
	d.search(ctx)
	var all sync.WaitGroup
	for _, driver := range d.cfg.Drivers {
		all.Go(func() { _, _ = d.find(ctx, driver) })
	}
	all.Wait()
	d.once.Do(func() { close(d.scanned) })
	return d.statuses()
}

func (d *discovery) statuses() []thread.ProviderStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	statuses := make([]thread.ProviderStatus, 0, len(thread.Providers))
	for _, p := range thread.Providers {
		status := thread.ProviderStatus{Provider: p}
		result, probed := d.known[p]
		switch {
		case d.m.slots[p] == nil:
			status.Error = unsupported(p)
		case !probed:
			status.Error = p.Name() + " has not been looked for yet; refresh the list in a moment."
		case result.err != nil:
			status.Error = result.err.Message()
			status.Path = result.key.path
		default:
			status.Available = true
			status.Path = result.program.Path
			status.Version = result.program.Version
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// find returns a provider's program. The error is PROVIDER_NOT_AVAILABLE with a
// sentence that says what to do. A probe goes on when its caller leaves.
func (d *discovery) find(ctx context.Context, driver Driver) (Program, error) {
	d.mu.Lock()
	p := d.probes[driver.Provider]
	if p == nil {
		p = &probing{done: make(chan struct{})}
		if !d.m.spawn(func() { d.run(driver, p) }) {
			d.mu.Unlock()
			return Program{}, shuttingDown()
		}
		d.probes[driver.Provider] = p
	}
	d.mu.Unlock()
	select {
	case <-p.done:
	case <-ctx.Done():
		return Program{}, notAvailable(driver, "%s did not answer in time when it was asked for its version; try again, or check that it runs.", driver.Provider.Name())
	}
	if p.result.err != nil {
		return Program{}, p.result.err
	}
	return p.result.program, nil
}

func (d *discovery) run(driver Driver, p *probing) {
	ctx, cancel := context.WithTimeout(d.m.ctx, d.cfg.ScanTimeout)
	defer cancel()
	p.result = d.look(ctx, driver)
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() == nil || p.result.err == nil {
		d.known[driver.Provider] = p.result
	}
	delete(d.probes, driver.Provider)
	close(p.done)
}

// look tries each place where the program may be, in order; the first that is
// good wins, else the first one's fault is told.
func (d *discovery) look(ctx context.Context, driver Driver) found {
	override := d.cfg.Override(driver.Provider)
	if !d.searched() {
		// A program that is near needs not wait for a login shell.
		if near := d.lookIn(ctx, driver, override, nearDirs(d.cfg)); near.err == nil {
			return near
		}
	}
	return d.lookIn(ctx, driver, override, d.search(ctx))
}

func (d *discovery) lookIn(ctx context.Context, driver Driver, override Override, dirs []string) found {
	candidates := d.candidates(driver, override.Command, dirs)
	if len(candidates) == 0 {
		return found{err: missing(driver, override.Command)}
	}
	searchPath := strings.Join(dirs, string(os.PathListSeparator))
	var first found
	for i, c := range candidates {
		result := d.examine(ctx, driver, c, searchPath, override.Env)
		if result.err == nil {
			return result
		}
		if i == 0 {
			first = result
		}
	}
	return first
}

// searched reports whether all the folders to search are known.
func (d *discovery) searched() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dirs != nil
}

// search returns all the folders to search. Finding them may take as long as a
// login shell; it is done by one caller at a time.
func (d *discovery) search(ctx context.Context) []string {
	dirs, _, _ := d.searches.Do("", func() (any, error) {
		d.mu.Lock()
		dirs := d.dirs
		d.mu.Unlock()
		if dirs != nil {
			return dirs, nil
		}
		dirs = searchDirs(ctx, d.cfg)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.dirs = dirs
		return dirs, nil
	})
	return dirs.([]string)
}

type candidate struct {
	path string
	lead []string
}

func (d *discovery) candidates(driver Driver, command, dirs []string) []candidate {
	if len(command) > 0 {
		path := command[0]
		if !filepath.IsAbs(path) {
			path = firstIn(dirs, path)
		}
		if path == "" {
			return nil
		}
		return []candidate{{driver.behind(path), command[1:]}}
	}
	var list []candidate
	for _, name := range driver.Programs {
		if path := firstIn(dirs, name); path != "" {
			list = append(list, candidate{path: driver.behind(path)})
		}
	}
	return list
}

// behind returns the program that one launches, or the one itself.
func (d Driver) behind(path string) string {
	if d.Native != nil {
		if program := d.Native(path); program != "" {
			return program
		}
	}
	return path
}

func firstIn(dirs []string, name string) string {
	for _, dir := range dirs {
		if path := executable(dir, name); path != "" {
			return path
		}
	}
	return ""
}

// examine asks one program for its version and its protocol, at the same time.
func (d *discovery) examine(ctx context.Context, driver Driver, c candidate, searchPath string, env map[string]string) found {
	info, err := os.Stat(c.path)
	if err != nil {
		return found{err: missing(driver, append([]string{c.path}, c.lead...))}
	}
	key := fileKey{c.path, strings.Join(c.lead, "\x00"), info.Size(), info.ModTime()}
	d.mu.Lock()
	known, ok := d.known[driver.Provider]
	d.mu.Unlock()
	if ok && known.key == key && known.err == nil {
		known.program.SearchPath = searchPath
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ProbeTimeout)
	defer cancel()
	environ := probeEnviron(d.cfg.Environ, driver.Inherit, searchPath, env)
	version, help := "", ""
	var both errgroup.Group
	both.Go(func() (err error) {
		version, err = probe(ctx, c.path, slices.Concat(c.lead, []string{"--version"}), environ)
		return err
	})
	both.Go(func() (err error) {
		help, err = probe(ctx, c.path, slices.Concat(c.lead, driver.HelpArgs), environ)
		return err
	})
	switch err := both.Wait(); {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return found{key: key, err: notUsable(driver, c.path, "did not answer in time when it was asked for its version. Check that it runs in a terminal")}
	case err != nil:
		return found{key: key, err: notUsable(driver, c.path, "failed when it was asked for its version (%v). Install %s anew", exitWords(err), driver.Provider.Name())}
	case !strings.Contains(help, driver.HelpWord):
		return found{key: key, err: notUsable(driver, c.path, "does not know %q: it is too old, or another program of that name. Update %s", strings.Join(driver.Args, " "), driver.Provider.Name())}
	}
	return found{key: key, program: Program{Path: c.path, Lead: c.lead, SearchPath: searchPath, Version: firstLine(version)}}
}

// probeEnviron is the environment of a program that is asked about itself: it sees
// what it would see as an agent, and none of the daemon's other variables.
func probeEnviron(base, inherit []string, searchPath string, own map[string]string) []string {
	extra := []string{"PATH=" + searchPath}
	for name, value := range own {
		extra = append(extra, name+"="+value)
	}
	return proc.Environment(base, inherit, extra)
}

// exitWords keeps paths out of a sentence that pages may see.
func exitWords(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	line = strings.TrimSpace(line)
	return strings.ToValidUTF8(line[:min(len(line), versionBytes)], "")
}

func missing(driver Driver, command []string) *fault.Error {
	if len(command) > 0 {
		return notAvailable(driver, "%s of providerSettings.%s.command was not found; correct it or remove it.", filepath.Base(command[0]), driver.Provider)
	}
	name := driver.Provider.Name()
	return notAvailable(driver, "%s was not found: no program named %s is on PATH. Install %s, or name its program in providerSettings.%s.command.",
		name, strings.Join(driver.Programs, " or "), name, driver.Provider)
}

// notUsable says of a program that was found what it did, and a remedy. Its name alone,
// such as "agent", would not tell whose it should be.
func notUsable(driver Driver, path, format string, args ...any) *fault.Error {
	return notAvailable(driver, "The program %s, which should be %s's, %s, or name the right one in providerSettings.%s.command.",
		filepath.Base(path), driver.Provider.Name(), fmt.Sprintf(format, args...), driver.Provider)
}

func notAvailable(driver Driver, format string, args ...any) *fault.Error {
	return fault.New(fault.ProviderNotAvailable, fmt.Sprintf(format, args...)).With("provider", driver.Provider.String())
}
