package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// MaxFileBytes bounds what is read; a real settings file has a few kilobytes.
const MaxFileBytes = 1 << 20

// settleTime is how long after its last change a file is read again even though
// its stamp did not move: within one tick of the file system's clock a second
// write of the same length leaves none.
const settleTime = 2 * time.Second

// fileMode keeps the API keys in the file to its owner.
const fileMode fs.FileMode = 0o600

// File is the settings file. Make one with [New]; set the fields before the
// first call.
type File struct {
	// Available tells whether a provider can be used, and if not, why. nil =
	// all of them can.
	Available func(code string) (ok bool, why string)
	// OnLoad is told of each new content of the file, good or not, by the
	// goroutine that noticed it. nil = nobody listens.
	OnLoad func(s Settings, problems []Problem, err error)

	// GuardAge is how old the answer of RequireToken may be: every request asks,
	// and a look at the file costs more than a ping. 0 = it looks each time.
	GuardAge time.Duration

	path  string
	state atomic.Pointer[state]
	guard atomic.Pointer[guard] // the latest answer of RequireToken
	turn  chan struct{}         // holds the right to update
}

// guard is an answer of RequireToken and when it was found.
type guard struct {
	required bool
	at       time.Time
}

// state is what is known of the file at one moment.
type state struct {
	settings Settings // the last good ones
	problems []Problem
	document document
	raw      []byte

	stamp   fs.FileInfo // nil = there was no file, or it could not be read
	settled bool        // the stamp is old enough to be trusted
	err     error       // why the file cannot be used; nil = it can, or there is none
}

// New returns the settings file at path, which need not exist.
func New(path string) *File {
	f := &File{path: path, turn: make(chan struct{}, 1)}
	f.state.Store(&state{settings: defaults()})
	return f
}

// Path returns where the file is.
func (f *File) Path() string { return f.path }

// Current returns the settings in force: those of the file, the last good ones
// when it cannot be read, defaults when there is none.
func (f *File) Current() Settings { return f.load().settings }

// Problems returns the entries of the file that cannot be used, or one problem
// without a path when the whole file cannot.
func (f *File) Problems() []Problem {
	st := f.load()
	if st.err != nil {
		return []Problem{{Msg: st.err.Error()}}
	}
	return st.problems
}

// DefaultProvider returns the code of the default provider, "" for none. Error:
// SETTINGS_READ_FAILED with details {path, error} while the file cannot be
// read.
func (f *File) DefaultProvider() (string, error) {
	st := f.load()
	if st.err != nil {
		return "", f.readFailed(st.err)
	}
	return st.settings.DefaultProvider, nil
}

// RequireToken tells whether every request must carry the daemon's token.
func (f *File) RequireToken() bool {
	if g := f.guard.Load(); g != nil && time.Since(g.at) < f.GuardAge {
		return g.required
	}
	g := &guard{required: f.Current().RequireToken, at: time.Now()}
	f.guard.Store(g)
	return g.required
}

// AllowedOrigins returns the web origins whose pages may act without being asked
// about, as the file spells them.
func (f *File) AllowedOrigins() []string { return f.Current().AllowedOrigins }

// EffortArgs is [Settings.EffortArgs] of the settings in force.
func (f *File) EffortArgs(code, level string) ([]string, error) {
	return f.Current().EffortArgs(code, level)
}

// Command is [Settings.Command] of the settings in force.
func (f *File) Command(code string) ([]string, error) { return f.Current().Command(code) }

// Env is [Settings.Env] of the settings in force.
func (f *File) Env(code string) map[string]string { return f.Current().Env(code) }

// Permission is [Settings.Permission] of the settings in force.
func (f *File) Permission(code string) string { return f.Current().Permission(code) }

// Secrets is [Settings.Secrets] of the settings in force.
func (f *File) Secrets() []string { return f.Current().Secrets() }

func (f *File) readFailed(err error) *fault.Error {
	return fault.Wrap(fault.SettingsReadFailed, "settings.read", err, "The settings file cannot be read; correct or remove it.").
		With("path", f.path).With("error", err.Error())
}

// load returns the state of the file, read anew if it changed. Two goroutines
// may read at once; whichever stores an older content is corrected by the next
// call, whose stamp differs.
func (f *File) load() *state {
	old := f.state.Load()
	stamp, err := os.Stat(f.path)
	if err == nil && old.settled && sameStamp(old.stamp, stamp) {
		return old
	}
	st := f.read(old, stamp, err)
	f.state.Store(st)
	f.guard.Store(nil) // whoever asks next looks
	if f.OnLoad != nil && st.differs(old) {
		f.OnLoad(st.settings, st.problems, st.err)
	}
	return st
}

func (f *File) read(old *state, stamp fs.FileInfo, statErr error) *state {
	if errors.Is(statErr, fs.ErrNotExist) {
		target, err := os.Readlink(f.path)
		if err != nil {
			return &state{settings: defaults()}
		}
		// There are settings, and they cannot be had at the moment.
		statErr = fmt.Errorf("it is a link to %s, which is not there", target)
	}
	if statErr != nil {
		return old.failed(nil, nil, statErr)
	}
	readAt := time.Now()
	data, stamp, err := readFile(f.path, stamp)
	if err != nil {
		return old.failed(nil, nil, err)
	}
	settled := readAt.Sub(stamp.ModTime()) > settleTime
	if bytes.Equal(data, old.raw) && old.raw != nil {
		st := *old
		st.stamp, st.settled = stamp, settled
		return &st
	}
	d, err := parseDocument(data)
	if err != nil {
		st := old.failed(data, stamp, err)
		st.settled = settled
		return st
	}
	s, problems := parse(d)
	return &state{settings: s, problems: problems, document: d, raw: data, stamp: stamp, settled: settled}
}

// failed is the state after a read that failed: the last good settings stay.
func (st *state) failed(raw []byte, stamp fs.FileInfo, err error) *state {
	return &state{settings: st.settings, problems: st.problems, document: st.document, raw: raw, stamp: stamp, err: err}
}

func (st *state) differs(old *state) bool {
	if (st.err == nil) != (old.err == nil) || st.err != nil && st.err.Error() != old.err.Error() {
		return true
	}
	return !bytes.Equal(st.raw, old.raw)
}

func sameStamp(a, b fs.FileInfo) bool {
	return a != nil && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}

// readFile returns the file's bytes and its stamp from before they were read.
// It gives the file's mode back its privacy, best effort.
func readFile(path string, seen fs.FileInfo) ([]byte, fs.FileInfo, error) {
	// A device or FIFO is not opened at all: it could block.
	if !seen.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	stamp, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if stamp.Mode().Perm()&^fileMode != 0 {
		_ = file.Chmod(fileMode)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > MaxFileBytes {
		return nil, nil, fmt.Errorf("%s is larger than %d bytes", path, MaxFileBytes)
	}
	return data, stamp, nil
}
