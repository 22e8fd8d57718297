package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

// Names inside the home folder.
const (
	lockFileName    = "core.lock"
	storeFile       = "core.db"
	settingsFile    = "settings.json"
	logFolder       = "logs"
	logFile         = "core.log"
	workspaceFolder = "workspaces"
)

// Modes of what holds secrets or conversations.
const (
	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600
	readMode   fs.FileMode = 0o400
)

// A repair is something in the home folder that was not as it must be and was put
// right.
type repair struct {
	path    string
	movedTo string // where what stood there is now; "" = its mode was changed
}

// prepareHome makes the home folder if need be and gives it and the files in it
// the modes that keep other users out and let the daemon in. It refuses a folder
// that belongs to somebody else. It may be called beside a daemon that serves.
func prepareHome(home string) (repaired []repair, err error) {
	if err := makeFolder(home); err != nil {
		return nil, err
	}
	wrong, err := wrongModes(home)
	if err != nil {
		return nil, err
	}
	for _, w := range wrong {
		err := os.Chmod(w.path, w.want)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another start has removed it, or a daemon that leaves
		}
		if err != nil {
			return nil, fmt.Errorf("the mode of %s cannot be repaired: %w; run: chmod %o %q", w.path, err, w.want, w.path)
		}
		repaired = append(repaired, repair{path: w.path})
	}
	return repaired, nil
}

// clearHome sets aside what stands in the place of one of the daemon's files and
// cannot be used as such, and makes the folder for logs. Only the holder of the
// instance lock may call it: it would take away what a daemon that serves has just
// made there.
func clearHome(home string) (repaired []repair, err error) {
	for _, path := range misfits(home) {
		aside, err := setAside(path)
		if err != nil {
			return nil, fmt.Errorf("%s is in the way of the daemon's own and cannot be moved: %w; move it away, then start again", path, err)
		}
		repaired = append(repaired, repair{path, aside})
	}
	return repaired, makeFolder(filepath.Join(home, logFolder))
}

// makeFolder makes a folder and those above it, and forces them to disk: what is
// stored in it later must not be lost with it.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil // whatever it is; whoever uses it says what is wrong with it
	}
	top := filepath.Dir(dir)
	for _, err := os.Stat(top); err != nil && top != filepath.Dir(top); _, err = os.Stat(top) {
		top = filepath.Dir(top)
	}
	err := os.MkdirAll(dir, folderMode)
	for above := filepath.Dir(dir); err == nil; above = filepath.Dir(above) {
		if err = syncFolder(above); above == top {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("the folder %s cannot be made: %w; choose another home folder with --home DIR", dir, err)
	}
	return nil
}

// asideInfix stands in the name of everything that was set aside, before the time.
const asideInfix = ".damaged-"

// setAside gives what stands at a path another name. Nothing is deleted.
func setAside(path string) (aside string, err error) {
	aside = path + asideInfix + time.Now().UTC().Format("20060102T150405.000Z")
	return aside, os.Rename(path, aside)
}

// setAsideIn returns what was set aside in a home folder, the database included.
func setAsideIn(home string) (paths []string) {
	for _, dir := range []string{"", logFolder, binFolder} {
		found, _ := filepath.Glob(filepath.Join(home, dir, "*"+asideInfix+"*")) // the pattern is well-formed
		paths = append(paths, found...)
	}
	return paths
}

// misfits returns what in the home folder is neither the file or folder that it
// should be nor something that a start replaces. The lock, the database and the
// settings are not among them: those are the user's to move.
func misfits(home string) (paths []string) {
	logs := filepath.Join(home, logFolder)
	for _, dir := range []string{logs, filepath.Join(home, binFolder), filepath.Join(home, workspaceFolder)} {
		if is := kindOf(dir); is == aFile || is == aPipe || is == aDeadLink {
			paths = append(paths, dir)
		}
	}
	for _, file := range []string{filepath.Join(home, ipc.RuntimeFileName), filepath.Join(home, ipc.AgentRuntimeFileName), cliPath(home)} {
		if kindOf(file) == aFolder {
			paths = append(paths, file)
		}
	}
	if is := kindOf(logPath(home)); is == aFolder || is == aPipe || is == aDeadLink {
		paths = append(paths, logPath(home))
	}
	return paths
}

// kind is what stands at a path.
type kind int

const (
	nothing kind = iota // also what cannot be looked at
	aFile               // also a link to one
	aFolder             // likewise
	aPipe               // likewise; also a socket: whoever opens it may wait for ever
	aDeadLink
)

func kindOf(path string) kind {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return aFolder
	}
	if err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return aPipe
	}
	if err == nil {
		return aFile
	}
	if _, err := os.Readlink(path); err == nil {
		return aDeadLink
	}
	return nothing
}

// wrongMode is a path that more people may use than should, or not even its owner.
type wrongMode struct {
	path string
	want fs.FileMode // at most
	need fs.FileMode // at least
	shut bool        // it has less than it needs
}

// wrongModes returns what in the home folder has the wrong mode. Its error says
// that the folder cannot be used at all.
func wrongModes(home string) ([]wrongMode, error) {
	info, err := os.Stat(home)
	if err != nil {
		return nil, fmt.Errorf("the home folder cannot be looked at: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder; choose another one with --home DIR", home)
	}
	if err := checkOwner(home, info); err != nil {
		return nil, err
	}
	if !modesTold {
		return nil, nil
	}
	var wrong []wrongMode
	for _, p := range homePaths(home) {
		info, err := os.Lstat(p.path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s cannot be looked at: %w", p.path, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 || info.IsDir() != (p.want == folderMode) {
			continue // not ours to change
		}
		p.shut = p.path != home && info.Mode().Perm()&p.need != p.need
		if p.shut || info.Mode().Perm()&^p.want != 0 {
			wrong = append(wrong, p)
		}
	}
	return wrong, nil
}

// homePaths lists what of the home folder has a mode that matters.
func homePaths(home string) []wrongMode {
	paths := []wrongMode{{path: home, want: folderMode, need: folderMode}}
	for _, name := range []string{logFolder, binFolder} {
		paths = append(paths, wrongMode{path: filepath.Join(home, name), want: folderMode, need: folderMode})
	}
	for _, name := range []string{ipc.RuntimeFileName, ipc.AgentRuntimeFileName, storeFile} {
		paths = append(paths, wrongMode{path: filepath.Join(home, name), want: fileMode, need: fileMode})
	}
	// Whoever shut the lock to us may have had a reason.
	paths = append(paths, wrongMode{path: filepath.Join(home, lockFileName), want: fileMode})
	// The user's own: it may be kept from being written.
	paths = append(paths, wrongMode{path: filepath.Join(home, settingsFile), want: fileMode, need: readMode})
	logs, _ := filepath.Glob(filepath.Join(home, logFolder, "core*.log")) // the pattern is well-formed
	for _, path := range logs {
		paths = append(paths, wrongMode{path: path, want: fileMode, need: fileMode})
	}
	return paths
}
