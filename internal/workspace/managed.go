package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// CreateManaged makes the managed workspace of a thread and returns its
// canonical path. undo removes it. Error: WORKSPACE_CREATE_FAILED with details
// {path, error}, also when the folder exists already.
//
// The folder is not forced to disk: after a power failure a managed workspace
// counts as gone whatever is left of it.
func (m *Manager) CreateManaged(threadID string) (path string, undo func(), err error) {
	shown := filepath.Join(m.root, threadID)
	if err := checkThreadID(threadID); err != nil {
		return "", nil, createFailed(shown, err)
	}
	root, err := m.openRoot()
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(m.root, privateDirMode); err != nil {
			return "", nil, createFailed(shown, err)
		}
		root, err = m.openRoot()
	}
	if err != nil {
		return "", nil, createFailed(shown, err)
	}
	defer root.Close()
	canonicalRoot, err := canonical(m.root)
	if err != nil {
		return "", nil, createFailed(shown, err)
	}
	if err := root.Mkdir(threadID, privateDirMode); err != nil {
		return "", nil, createFailed(shown, err)
	}
	undo = sync.OnceFunc(func() {
		if err := m.RemoveManaged(context.Background(), threadID); err != nil {
			m.Log.Warn().Err(err).Str("threadId", threadID).Msg("A workspace of a creation that failed could not be removed; the next start tries again.")
		}
	})
	if err := fault.Point("workspace.managed.made"); err != nil {
		undo()
		return "", nil, createFailed(shown, err)
	}
	return filepath.Join(canonicalRoot, threadID), undo, nil
}

// RemoveManaged removes the managed workspace of a thread with all that is in
// it; one that does not exist is no error. Links in it are removed, never
// followed. What another program holds is tried again, RemoveRetries times.
func (m *Manager) RemoveManaged(ctx context.Context, threadID string) error {
	if err := checkThreadID(threadID); err != nil {
		return err
	}
	root, err := m.openRoot()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open managed root: %w", err)
	}
	defer root.Close()
	return m.remove(ctx, root, threadID)
}

// A Leftover is a managed workspace that could not be removed.
type Leftover struct {
	ThreadID string
	Path     string
	Err      error
}

// RemoveAllManaged removes every managed workspace but those of threads for
// which except says true; it is asked right before each removal, nil excepts
// none. Only plain folders named like thread ids are touched. It returns what
// could not be removed, which a later call may manage. A cancelled context
// ends it before the next folder. Meant to run in the background.
func (m *Manager) RemoveAllManaged(ctx context.Context, except func(threadID string) bool) []Leftover {
	root, err := m.openRoot()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []Leftover{{Path: m.root, Err: err}}
	}
	defer root.Close()
	ids, err := managedIDs(root)
	if err != nil {
		return []Leftover{{Path: m.root, Err: err}}
	}
	var left []Leftover
	for _, id := range ids {
		if ctx.Err() != nil {
			return append(left, Leftover{ThreadID: id, Path: filepath.Join(m.root, id), Err: ctx.Err()})
		}
		if except != nil && except(id) {
			continue
		}
		err := fault.Point("workspace.clear.before")
		if err == nil {
			err = m.remove(ctx, root, id)
		}
		if err == nil {
			err = fault.Point("workspace.clear.removed")
		}
		if err != nil {
			left = append(left, Leftover{ThreadID: id, Path: filepath.Join(m.root, id), Err: err})
		}
	}
	return left
}

// ListManaged returns the thread ids that have a folder under the managed root,
// ordered by name.
func (m *Manager) ListManaged() ([]string, error) {
	root, err := m.openRoot()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return managedIDs(root)
}

func managedIDs(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && threadIDPattern.MatchString(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// openRoot opens the managed root. It must be a directory; that it, or a folder
// above it, may be a link is the user's own affair.
func (m *Manager) openRoot() (*os.Root, error) { return os.OpenRoot(m.root) }

func (m *Manager) remove(ctx context.Context, root *os.Root, id string) error {
	info, err := root.Lstat(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", id)
	}
	for attempt := 0; ; attempt++ {
		err = root.RemoveAll(id)
		if err == nil || attempt >= m.RemoveRetries {
			return err
		}
		if errors.Is(err, fs.ErrPermission) {
			unlock(root, id)
		}
		if !pause(ctx, m.RemoveWait) {
			return err
		}
	}
}

// unlock gives folders below and including name their owner's permissions back,
// best effort: package managers make read-only trees, which cannot be emptied.
func unlock(parent *os.Root, name string) {
	info, err := parent.Lstat(name)
	if err != nil || !info.IsDir() {
		return
	}
	if info.Mode().Perm()&privateDirMode != privateDirMode {
		// Should a link take the folder's place meanwhile, Chmod still stays
		// inside the parent, which is being removed itself.
		_ = parent.Chmod(name, privateDirMode)
	}
	dir, err := openDir(parent, name)
	if err != nil {
		return
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			unlock(dir, e.Name())
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func checkThreadID(id string) error {
	if !threadIDPattern.MatchString(id) {
		return fmt.Errorf("%q is not a thread id", id)
	}
	return nil
}
