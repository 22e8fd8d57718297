package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// write replaces the file's content: temporary file, forced to disk, renamed,
// folder forced to disk. A file that is a symbolic link stays one.
func (f *File) write(data []byte) (err error) {
	if len(data) > MaxFileBytes {
		return fmt.Errorf("the settings would have %d bytes; %d are allowed", len(data), MaxFileBytes)
	}
	target, err := f.target()
	if err != nil {
		return err
	}
	dir := filepath.Dir(target)
	temp, err := os.CreateTemp(dir, temporaryPrefix+"*"+temporarySuffix) // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	if err := fill(temp, data); err != nil {
		return err
	}
	if err := fault.Point("settings.write.before-rename"); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), target); err != nil {
		return err
	}
	if err := fault.Point("settings.write.after-rename"); err != nil {
		return err
	}
	return syncDir(dir)
}

// A new content is written to a file of this name first, with random digits
// between.
const (
	temporaryPrefix = ".settings-"
	temporarySuffix = ".tmp"
)

// RemoveLeftovers removes what writers that were killed have left beside the file:
// API keys are in there. It must not run while somebody else may write.
func (f *File) RemoveLeftovers() error {
	target, err := f.target()
	if err != nil {
		return err
	}
	dir := filepath.Dir(target)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var failed error
	for _, e := range entries {
		if isTemporary(e.Name()) && e.Type().IsRegular() {
			failed = errors.Join(failed, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return failed
}

// isTemporary reports whether a file is named as one of ours: the folder is the
// user's, if the file is a link.
func isTemporary(name string) bool {
	rest, begins := strings.CutPrefix(name, temporaryPrefix)
	digits, ends := strings.CutSuffix(rest, temporarySuffix)
	return begins && ends && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// target is the file that is written: where the path leads, if it is a link.
func (f *File) target() (string, error) {
	target, err := filepath.EvalSymlinks(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.path, nil
	}
	return target, err
}

func fill(file *os.File, data []byte) error {
	if _, err := file.Write(data); err != nil {
		file.Close()
		return err
	}
	if err := file.Sync(); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
