package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrNotDirectory is the cause when an entry that must be a real directory is
// something else, a symbolic link included.
var ErrNotDirectory = errors.New("is not a real directory")

// ErrLink is the cause when an entry is a symbolic link. Where a directory was
// wanted it is an ErrNotDirectory, else an ErrNotRegular.
var ErrLink = errors.New("a symbolic link")

// ErrNotRegular is the cause when an entry that must be a regular file is
// something else, a symbolic link included.
var ErrNotRegular = errors.New("is not a regular file")

// ErrSwapped is the cause when an entry changed between two looks at it.
var ErrSwapped = errors.New("was replaced while it was opened")

// refusal is the error about an entry that is not of the kind that is wanted.
func refusal(name string, wanted error, mode fs.FileMode) error {
	cause := wanted
	if mode&fs.ModeSymlink != 0 {
		cause = fmt.Errorf("%w but %w", wanted, ErrLink)
	}
	return &fs.PathError{Op: "open", Path: name, Err: cause}
}

// openDir opens the directory called name, a single component, directly under
// parent.
//
// os.Root alone keeps a path inside its folder but follows links within it, so
// an agent could redirect our writes onto the user's own files. What we hold
// after this is the very directory that Lstat saw.
func openDir(parent *os.Root, name string) (*os.Root, error) {
	seen, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, refusal(name, ErrNotDirectory, seen.Mode())
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrSwapped}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// makeDir opens the directory called name under parent and makes it first if
// there is none.
func makeDir(parent *os.Root, name string) (*os.Root, error) {
	dir, err := openDir(parent, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	err = parent.Mkdir(name, privateDirMode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err == nil {
		if err := syncRoot(parent); err != nil {
			return nil, err
		}
	}
	return openDir(parent, name)
}

// writeNew makes a file that must not exist yet and forces it to disk. A file
// that cannot be written whole is removed again.
func writeNew(dir *os.Root, name string, data []byte, mode fs.FileMode) (fs.FileInfo, error) {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	info, err := fill(f, data)
	if err != nil {
		return nil, errors.Join(err, dir.Remove(name))
	}
	return info, syncRoot(dir)
}

// writeWhole is writeNew, but a plain file of that name without content is replaced:
// that is what a crash leaves of one that was being written.
func writeWhole(dir *os.Root, name string, data []byte, mode fs.FileMode) (fs.FileInfo, error) {
	info, err := writeNew(dir, name, data, mode)
	if !errors.Is(err, fs.ErrExist) {
		return info, err
	}
	if there, lookErr := dir.Lstat(name); lookErr != nil || !there.Mode().IsRegular() || there.Size() > 0 {
		return nil, err
	}
	// Not in its place: another creation may be writing it at this moment.
	fresh := name + "." + rand.Text()
	if info, err = writeNew(dir, fresh, data, mode); err != nil {
		return nil, err
	}
	if err := dir.Rename(fresh, name); err != nil {
		return nil, errors.Join(err, dir.Remove(fresh))
	}
	return info, syncRoot(dir)
}

func fill(f *os.File, data []byte) (fs.FileInfo, error) {
	if _, err := f.Write(data); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return info, f.Close()
}

// syncRoot forces the entries of a directory to disk.
func syncRoot(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syncDir(f); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
