package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// customDirMode is the mode of folders made for an application; the umask
// applies, as for a folder that its user makes.
const customDirMode fs.FileMode = 0o777

// CreateCustom checks and makes an application's own folder and returns its
// canonical path. With an origin it also writes the marker file, unless there
// is one. undo removes the marker and the directories that this call made, the
// latter only while they are empty.
//
// Errors: WORKSPACE_PATH_INVALID with details {workspacePath,
// managedWorkspaceRoot} and a message that names the broken rule;
// WORKSPACE_CREATE_FAILED with details {path, error}.
func (m *Manager) CreateCustom(path, sdkVersion, origin string) (canonicalPath string, undo func(), err error) {
	if origin != "" && strings.TrimSpace(sdkVersion) == "" {
		return "", nil, createFailed(path, errors.New("a page that names a workspace must also state its SDK version"))
	}
	if !filepath.IsAbs(path) {
		return "", nil, m.pathInvalid(path, "The workspace path must be absolute; ~ is not expanded and nothing is trimmed.")
	}
	clean := cleanPath(path)
	if rule := m.overlap(clean); rule != "" {
		return "", nil, m.pathInvalid(path, rule)
	}
	made, err := makePath(clean)
	if errors.Is(err, ErrNotDirectory) {
		return "", nil, m.pathInvalid(path, "The workspace path exists and is not a directory.")
	}
	if err != nil {
		return "", nil, createFailed(path, err)
	}
	var written writtenMarker
	rollback := sync.OnceFunc(func() {
		written.undo()
		made.undo()
	})
	defer func() {
		if err != nil {
			rollback()
		}
	}()
	canonicalPath, err = canonical(clean)
	if err != nil {
		return "", nil, createFailed(path, err)
	}
	// Again on the real path: a link may have been swapped in meanwhile.
	if rule := m.overlap(canonicalPath); rule != "" {
		return "", nil, m.pathInvalid(path, rule)
	}
	if origin != "" {
		written, err = writeMarker(canonicalPath, sdkVersion, origin)
		if err != nil {
			return "", nil, createFailed(filepath.Join(canonicalPath, markerName), err)
		}
	}
	if err := fault.Point("workspace.custom.made"); err != nil {
		return "", nil, createFailed(path, err)
	}
	return canonicalPath, rollback, nil
}

func (m *Manager) pathInvalid(path, rule string) *fault.Error {
	return fault.New(fault.WorkspacePathInvalid, rule).
		With("workspacePath", path).With("managedWorkspaceRoot", showPath(m.root))
}

// overlap returns the sentence of the rule that an absolute, clean path breaks
// towards the managed root, or "". Neither may equal, hold or lie in the other,
// as written and with links resolved.
func (m *Manager) overlap(path string) string {
	realPath, realRoot := resolve(path), resolve(m.root)
	for _, p := range []string{path, realPath} {
		for _, root := range []string{m.root, realRoot} {
			if rule := overlapRule(p, root); rule != "" {
				return rule
			}
		}
	}
	// The same folder may have yet another name: other letter case, a bind mount.
	if inside(realPath, realRoot) {
		return ruleInside
	}
	if inside(realRoot, realPath) {
		return ruleHolds
	}
	return ""
}

const (
	ruleEqual  = "The workspace path is the folder in which the daemon keeps its own workspaces; choose another folder."
	ruleInside = "The workspace path lies in the folder in which the daemon keeps its own workspaces; choose a folder outside of it."
	ruleHolds  = "The workspace path holds the folder in which the daemon keeps its own workspaces, as the home directory does; choose a folder of its own for the project."
)

// overlapRule is the lexical half of the rule, on clean absolute paths.
func overlapRule(path, root string) string {
	switch {
	case equalPath(path, root):
		return ruleEqual
	case under(path, root):
		return ruleInside
	case under(root, path):
		return ruleHolds
	}
	return ""
}

// under reports whether path lies below dir, by whole components.
func under(path, dir string) bool {
	sep := string(filepath.Separator)
	if !strings.HasSuffix(dir, sep) {
		dir += sep
	}
	return len(path) > len(dir) && equalPath(path[:len(dir)], dir)
}

// inside reports whether path or an existing folder above it is the very
// directory dir.
func inside(path, dir string) bool {
	want, err := os.Stat(dir)
	if err != nil {
		return false
	}
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, want) {
			return true
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}

// resolve follows the links of the longest part of path that exists and appends
// the rest.
func resolve(path string) string {
	var tail []string
	for rest := path; ; {
		real, err := canonical(rest)
		if err == nil {
			for i := len(tail) - 1; i >= 0; i-- {
				real = filepath.Join(real, tail[i])
			}
			return real
		}
		parent := filepath.Dir(rest)
		if parent == rest {
			return path
		}
		tail = append(tail, filepath.Base(rest))
		rest = parent
	}
}

// canonical returns the path without links, as people write it.
func canonical(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return cleanPath(real), nil
}

// madeDir is one directory that this package made, with its identity, so that
// undoing never touches something that took its place.
type madeDir struct {
	path string
	info fs.FileInfo
}

type madeDirs []madeDir

// makePath makes path and the folders above it. Each folder in which a new one
// appears is forced to disk. When it fails, what it made is gone again.
func makePath(path string) (made madeDirs, err error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return nil, ErrNotDirectory
	}
	if err == nil {
		return nil, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	parent := filepath.Dir(path)
	if parent == path {
		return nil, err
	}
	made, err = makePath(parent)
	if err != nil {
		return nil, noDirectoryAbove(parent, err)
	}
	err = os.Mkdir(path, customDirMode)
	if errors.Is(err, fs.ErrExist) {
		// Somebody else made it at the same moment, or it is a dangling link.
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			return made, nil
		}
	}
	if err != nil {
		made.undo()
		return nil, err
	}
	info, err = os.Lstat(path)
	if err != nil {
		made.undo()
		return nil, err
	}
	made = append(made, madeDir{path, info})
	if err := syncPath(parent); err != nil {
		made.undo()
		return nil, err
	}
	return made, nil
}

// noDirectoryAbove keeps "exists and is no directory" for the workspace itself:
// a file further up is a failure to create, not a broken rule.
func noDirectoryAbove(parent string, err error) error {
	if errors.Is(err, ErrNotDirectory) {
		return fmt.Errorf("%s is not a directory", parent)
	}
	return err
}

// undo removes the directories, deepest first, until one is in use.
func (d madeDirs) undo() {
	for i := len(d) - 1; i >= 0; i-- {
		info, err := os.Lstat(d[i].path)
		if err != nil || !info.IsDir() || !os.SameFile(info, d[i].info) {
			return
		}
		if os.Remove(d[i].path) != nil {
			return
		}
	}
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // a folder may be writable and not readable; then it cannot be forced
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDir(f)
}
