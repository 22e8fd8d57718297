package assets

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/pedelec/pedelec-core/internal/workspace"
)

// errNotStaged means that a name is not one that an upload has recorded.
var errNotStaged = errors.New("this is no temporary file of an upload")

// RemoveStaged removes what an upload that a crash cut off has left, given the
// name that was remembered by [Threads].Stage. It removes nothing but a regular
// file whose name is that of a temporary file, in the assets folder of the
// workspace and with no link on the way; that there is none is no error.
func RemoveStaged(workspacePath, name string) error {
	below, ok := strings.CutPrefix(name, workspace.AssetsPath)
	if !ok {
		return errNotStaged
	}
	segments, err := splitPath(below, forReading)
	if err != nil {
		return errors.Join(errNotStaged, err)
	}
	folder, base := segments[:len(segments)-1], segments[len(segments)-1]
	if !strings.HasPrefix(base, reservedPrefix) {
		return errNotStaged
	}
	dir, err := openFolder(workspace.OpenAssets, workspacePath, folder, workspace.Refuse)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Regular(base); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return dir.Remove(base)
}
