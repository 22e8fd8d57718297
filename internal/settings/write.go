package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// write replaces the file's content: temporary file, forced to disk, renamed,
// folder forced to disk. A file that is a symbolic link stays one.
func (f *File) write(data []byte) (err error) {
	if len(data) > MaxFileBytes {
		return fmt.Errorf("the settings would have %d bytes; %d are allowed", len(data), MaxFileBytes)
	}
	target, err := filepath.EvalSymlinks(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		target, err = f.path, nil
	}
	if err != nil {
		return err
	}
	dir := filepath.Dir(target)
	temp, err := os.CreateTemp(dir, ".settings-*.tmp") // mode 0600
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
