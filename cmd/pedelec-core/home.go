package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
)

// prepareHome makes the home folder if need be and gives it and the files in it
// the modes that keep other users out. It refuses a folder that belongs to
// somebody else. It returns the paths whose mode it repaired.
func prepareHome(home string) (repaired []string, err error) {
	if err := makeFolder(home); err != nil {
		return nil, err
	}
	wrong, err := looseModes(home)
	if err != nil {
		return nil, err
	}
	if err := makeFolder(filepath.Join(home, logFolder)); err != nil { // now that home is known to be ours
		return nil, err
	}
	for _, w := range wrong {
		if err := os.Chmod(w.path, w.want); err != nil {
			return nil, fmt.Errorf("the mode of %s cannot be repaired: %w; run: chmod %o %q", w.path, err, w.want, w.path)
		}
		repaired = append(repaired, w.path)
	}
	return repaired, nil
}

func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return fmt.Errorf("the folder %s cannot be made: %w; choose another home folder with --home DIR", dir, err)
	}
	return nil
}

// looseMode is a path that more people may use than should.
type looseMode struct {
	path string
	want fs.FileMode
}

// looseModes returns what in the home folder has the wrong mode. Its error says
// that the folder cannot be used at all.
func looseModes(home string) ([]looseMode, error) {
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
	var wrong []looseMode
	for _, p := range homePaths(home) {
		info, err := os.Lstat(p.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s cannot be looked at: %w", p.path, err)
		}
		isLink := info.Mode()&fs.ModeSymlink != 0
		if !isLink && info.Mode().Perm()&^p.want != 0 {
			wrong = append(wrong, p)
		}
	}
	return wrong, nil
}

// homePaths lists what of the home folder has a mode that matters.
func homePaths(home string) []looseMode {
	paths := []looseMode{{home, folderMode}, {filepath.Join(home, logFolder), folderMode}, {filepath.Join(home, binFolder), folderMode}}
	for _, name := range []string{ipc.RuntimeFileName, ipc.AgentRuntimeFileName, lockFileName, storeFile, settingsFile} {
		paths = append(paths, looseMode{filepath.Join(home, name), fileMode})
	}
	logs, _ := filepath.Glob(filepath.Join(home, logFolder, "core*.log")) // the pattern is well-formed
	for _, path := range logs {
		paths = append(paths, looseMode{path, fileMode})
	}
	return paths
}
