package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// markerName is the file that tells people which page made a workspace. It is
// information, never authority.
const markerName = ".pedelec-workspace.json"

// markerMode is that of an ordinary project file.
const markerMode fs.FileMode = 0o644

type marker struct {
	SDKVersion string `json:"sdk-version"`
	Origin     string `json:"origin"`
}

// writtenMarker is the marker that a creation wrote; the zero value stands for
// one that was there before.
type writtenMarker struct {
	workspace string
	info      fs.FileInfo
}

// writeMarker writes the marker once. An existing regular file is left alone,
// whatever it holds, unless it is empty; any other kind of entry is an error.
func writeMarker(workspace, sdkVersion, origin string) (writtenMarker, error) {
	data, err := json.Marshal(marker{sdkVersion, origin}, jsontext.Multiline(true))
	if err != nil {
		return writtenMarker{}, err
	}
	dir, err := os.OpenRoot(workspace)
	if err != nil {
		return writtenMarker{}, err
	}
	defer dir.Close()
	info, err := writeWhole(dir, markerName, append(data, '\n'), markerMode)
	if err == nil {
		return writtenMarker{workspace, info}, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return writtenMarker{}, err
	}
	there, err := dir.Lstat(markerName)
	if err != nil {
		return writtenMarker{}, err
	}
	if !there.Mode().IsRegular() {
		return writtenMarker{}, fmt.Errorf("%s exists and is not a regular file", markerName)
	}
	return writtenMarker{}, nil
}

// undo removes the marker if it is still the one that was written.
func (w writtenMarker) undo() {
	if w.info == nil {
		return
	}
	dir, err := os.OpenRoot(w.workspace)
	if err != nil {
		return
	}
	defer dir.Close()
	if there, err := dir.Lstat(markerName); err == nil && os.SameFile(there, w.info) {
		_ = dir.Remove(markerName)
	}
}
