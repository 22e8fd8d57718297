package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Names in a workspace that are the daemon's.
const (
	privateName   = ".pedelec-runtime"
	assetsName    = "assets"
	threadsName   = "threads"
	gitignoreName = ".gitignore"
)

// gitignore keeps the private folder out of the project's repository.
const gitignore = "*\n"

// PrivateDir makes what is missing of the private folder in the workspace at
// path and returns <path>/.pedelec-runtime/threads/<threadID>. It refuses when
// a folder on that way is a symbolic link or a file.
//
// The path is good for the moment only: an agent may replace it. Whoever writes
// there must be content with that.
func (m *Manager) PrivateDir(path, threadID string) (string, error) {
	if err := checkThreadID(threadID); err != nil {
		return "", err
	}
	private, err := openPrivate(path)
	if err != nil {
		return "", err
	}
	defer private.Close()
	threads, err := makeDir(private, threadsName)
	if err != nil {
		return "", inPrivate(err)
	}
	defer threads.Close()
	own, err := makeDir(threads, threadID)
	if err != nil {
		return "", inPrivate(err)
	}
	defer own.Close()
	return filepath.Join(path, privateName, threadsName, threadID), nil
}

// openPrivate opens the private folder of a workspace, made with its assets
// folder and .gitignore if need be.
func openPrivate(path string) (*os.Root, error) {
	workspace, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	private, err := makeDir(workspace, privateName)
	if err != nil {
		return nil, fmt.Errorf("private folder: %w", err)
	}
	if err := furnish(private); err != nil {
		private.Close()
		return nil, inPrivate(err)
	}
	return private, nil
}

func furnish(private *os.Root) error {
	if info, err := private.Lstat(assetsName); err != nil || !info.IsDir() {
		assets, err := makeDir(private, assetsName)
		if err != nil {
			return err
		}
		assets.Close()
	}
	if there, err := private.Lstat(gitignoreName); err == nil && (!there.Mode().IsRegular() || there.Size() > 0) {
		return nil // whatever it is: it belongs to whoever changed it
	}
	_, err := writeWhole(private, gitignoreName, []byte(gitignore), privateFileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil // another thread of this workspace was quicker
	}
	return err
}

func inPrivate(err error) error { return fmt.Errorf("in %s: %w", privateName, err) }
