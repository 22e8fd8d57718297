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
// is one. The caller says by keep or undo how it went on. undo removes the marker
// and the directories that this call made, the latter only while they are empty;
// what another creation relies on stays until that one's outcome is known, too.
//
// Errors: WORKSPACE_PATH_INVALID with details {workspacePath,
// managedWorkspaceRoot} and a message that names the broken rule;
// WORKSPACE_CREATE_FAILED with details {path, error}.
func (m *Manager) CreateCustom(path, sdkVersion, origin string) (canonicalPath string, keep, undo func(), err error) {
	if origin != "" && strings.TrimSpace(sdkVersion) == "" {
		return "", nil, nil, createFailed(path, errors.New("a page that names a workspace must also state its SDK version"))
	}
	if !filepath.IsAbs(path) {
		return "", nil, nil, m.pathInvalid(path, "The workspace path must be absolute; ~ is not expanded and nothing is trimmed.")
	}
	clean := cleanPath(path)
	if rule := m.overlap(clean); rule != "" {
		return "", nil, nil, m.pathInvalid(path, rule)
	}
	// By its real name: creations that share a folder may spell it differently.
	used, err := m.makePath(resolve(clean))
	var outcome sync.Once
	undo = func() { outcome.Do(func() { m.claims.undo(used) }) }
	keep = func() { outcome.Do(func() { m.claims.keep(used) }) }
	defer func() {
		if err != nil {
			undo()
			keep, undo = nil, nil
		}
	}()
	if errors.Is(err, ErrNotDirectory) {
		return "", keep, undo, m.pathInvalid(path, "The workspace path exists and is not a directory.")
	}
	if err != nil {
		return "", keep, undo, createFailed(path, err)
	}
	canonicalPath, err = canonical(clean)
	if err != nil {
		return "", keep, undo, createFailed(path, err)
	}
	// Again on the real path: a link may have been swapped in meanwhile.
	if rule := m.overlap(canonicalPath); rule != "" {
		return "", keep, undo, m.pathInvalid(path, rule)
	}
	if origin != "" {
		written, err := writeMarker(canonicalPath, sdkVersion, origin)
		if err != nil {
			return "", keep, undo, createFailed(filepath.Join(canonicalPath, markerName), err)
		}
		if written.info != nil {
			m.claims.setMarker(used[0], written)
		}
	}
	if err := fault.Point("workspace.custom.made"); err != nil {
		return "", keep, undo, createFailed(path, err)
	}
	return canonicalPath, keep, undo, nil
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

// makePath makes path and the folders above it, and claims them, the deepest first.
// Each folder in which a new one appears is forced to disk. When it fails, the claims
// are the caller's to undo.
func (m *Manager) makePath(path string) (used []*claim, err error) {
	own := m.claims.take(path)
	used = []*claim{own}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return used, ErrNotDirectory
	}
	if err == nil {
		return append(used, m.claims.takeAbove(path)...), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return used, err
	}
	parent := filepath.Dir(path)
	if parent == path {
		return used, err
	}
	above, err := m.makePath(parent)
	used = append(used, above...)
	if err != nil {
		return used, noDirectoryAbove(parent, err)
	}
	err = os.Mkdir(path, customDirMode)
	if errors.Is(err, fs.ErrExist) {
		// Somebody else made it at the same moment, or it is a dangling link.
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			return used, nil
		}
	}
	if err != nil {
		return used, err
	}
	info, err = os.Lstat(path)
	if err != nil {
		return used, err
	}
	m.claims.setMade(own, info)
	return used, syncPath(parent)
}

// noDirectoryAbove keeps "exists and is no directory" for the workspace itself:
// a file further up is a failure to create, not a broken rule.
func noDirectoryAbove(parent string, err error) error {
	if errors.Is(err, ErrNotDirectory) {
		return fmt.Errorf("%s is not a directory", parent)
	}
	return err
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
