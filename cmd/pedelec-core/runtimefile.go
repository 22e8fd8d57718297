package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

// listenerLimit is how long a connect on loopback may take. It is taken or refused
// at once, but for a daemon that is stopped and has a full queue.
const listenerLimit = time.Second

// runtimeCheckEvery is how often the daemon looks whether its runtime files are still
// there.
const runtimeCheckEvery = 5 * time.Second

// tellWhere writes the runtime files, by which clients find the listeners.
func (d *core) tellWhere(tcp net.Addr) error {
	f := ipc.NewRuntimeFile(tcp)
	f.HTTPEndpoint = d.web
	f.Token = d.token
	f.InstanceID = d.instance
	f.StartedAt = time.Now().UTC().Round(0) // as a reader gets it, without the monotonic clock
	f.Version = version
	d.runtime = &f
	if err := f.Write(d.home); err != nil {
		return fmt.Errorf("the runtime file cannot be written, so no client could find the daemon: %w; see that %s can be written", err, d.home)
	}
	d.log.Info().Str("version", version).Int("pid", f.PID).Str("endpoint", f.Endpoint).Str("http", f.HTTPEndpoint).
		Str("home", d.home).Str("instance", d.instance).Msg("listening")
	return nil
}

// watchRuntimeFiles writes the runtime files again when somebody has removed or changed
// one: nobody could find the daemon any more.
func (d *core) watchRuntimeFiles(ctx context.Context) {
	every := runtimeCheckEvery
	d.short.set("runtime-check", &every)
	tick := time.NewTicker(every)
	defer tick.Stop()
	w := newRuntimeWatch(d.home, *d.runtime, d.lock, d.log)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look()
		}
	}
}

// runtimeWatch keeps the runtime files of a daemon that serves as it wrote them.
type runtimeWatch struct {
	home    string
	content ipc.RuntimeFile
	lock    *instanceLock
	log     zerolog.Logger

	files   []*watchedFile
	failing bool // they are not as they must be, and that was told
}

// watchedFile is a runtime file as it was when it was last found to be right.
type watchedFile struct {
	path string
	want ipc.RuntimeFile
	seen fs.FileInfo // nil = not yet
}

func newRuntimeWatch(home string, content ipc.RuntimeFile, lock *instanceLock, log zerolog.Logger) *runtimeWatch {
	return &runtimeWatch{home: home, content: content, lock: lock, log: log, files: []*watchedFile{
		{path: filepath.Join(home, ipc.RuntimeFileName), want: content},
		{path: filepath.Join(home, ipc.AgentRuntimeFileName), want: content.ForAgents()},
	}}
}

// look puts right what is wrong with the runtime files, or tells, once, why it cannot.
func (w *runtimeWatch) look() {
	i := slices.IndexFunc(w.files, func(f *watchedFile) bool { return !f.intact() })
	if i < 0 {
		w.failing = false
		return
	}
	path := w.files[i].path
	err := w.write()
	switch {
	case err == nil:
		w.failing = false
		w.log.Warn().Str("path", path).Msg("somebody removed or changed this while the daemon serves; it is written again")
	case !w.failing:
		w.failing = true
		w.log.Error().Err(err).Str("path", path).Msg("somebody removed or changed this while the daemon serves, and it cannot be written again: clients may not find the daemon")
	}
}

// write writes the files, unless another daemon may have taken the home over.
func (w *runtimeWatch) write() error {
	if !w.lock.InPlace() {
		return fmt.Errorf("%s or its folder was removed or replaced, so that another daemon may serve there; end this process, then start again", filepath.Join(w.home, lockFileName))
	}
	for _, f := range w.files {
		if info, err := os.Lstat(f.path); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a folder; move it away", f.path)
		}
	}
	return w.content.Write(w.home)
}

// intact reports whether the file says what it must. It is read only when it is not the
// one that was last read.
func (f *watchedFile) intact() bool {
	info, err := os.Lstat(f.path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if f.seen != nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() && info.Mode() == f.seen.Mode() {
		return true
	}
	there, err := ipc.ReadRuntimeFileAt(f.path)
	if err != nil || there != f.want {
		return false
	}
	f.seen = info
	return true
}

// removeDeadRuntimeFiles removes from a home folder the runtime files of a daemon
// that is gone: clients would look for it where they say. Those of one that may
// still serve, since only its lock's file was removed, stay. Only the holder of the
// instance lock may call it.
func removeDeadRuntimeFiles(home string) error {
	var failed error
	for _, name := range []string{ipc.AgentRuntimeFileName, ipc.RuntimeFileName} {
		f, err := ipc.ReadRuntimeFileAt(filepath.Join(home, name))
		if err != nil || alive(f.PID) && !refuses(f.Endpoint) {
			continue // there is none, it leads nobody anywhere, or its daemon may serve
		}
		if err := f.Remove(home); err != nil {
			failed = errors.Join(failed, fmt.Errorf("the runtime file of an earlier run cannot be removed: %w", err))
		}
	}
	return failed
}

// refuses reports whether nobody listens at an endpoint on this machine.
func refuses(endpoint string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), listenerLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", endpoint)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, connRefused)
}
