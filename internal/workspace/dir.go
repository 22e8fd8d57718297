package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

// AssetsPath is the assets folder's path below a workspace, with slashes.
const AssetsPath = privateName + "/" + assetsName

// listBatch is how many names are read of a folder at a time.
const listBatch = 1024

// Dir is an open folder at or below a workspace's assets folder. Names are
// single components; no method ever follows a symbolic link. Whatever happens
// to its path meanwhile, a Dir stays the folder that it was when it was opened.
//
// Its errors are those of the system and ErrNotDirectory, ErrNotRegular,
// ErrLink and ErrSwapped. All methods may be called at once, but for Close.
type Dir struct{ root *os.Root }

// OpenAssets opens the assets folder of a workspace, which must exist
// (fs.ErrNotExist).
func OpenAssets(workspace string) (*Dir, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, err
	}
	return openEach(root, privateName, assetsName)
}

// MakeAssets opens the assets folder of a workspace and makes first what is
// missing of the private folder.
func MakeAssets(workspace string) (*Dir, error) {
	private, err := openPrivate(workspace)
	if err != nil {
		return nil, err
	}
	return openEach(private, assetsName)
}

// openEach opens a folder step by step and closes all handles but the last.
func openEach(root *os.Root, names ...string) (*Dir, error) {
	for _, name := range names {
		next, err := openDir(root, name)
		root.Close()
		if err != nil {
			return nil, err
		}
		root = next
	}
	return &Dir{root}, nil
}

// Close lets go of the folder.
func (d *Dir) Close() error { return d.root.Close() }

// OpenDir opens a folder in this one.
func (d *Dir) OpenDir(name string) (*Dir, error) { return d.step(name, openDir) }

// MakeDir opens a folder in this one and makes it first if there is none.
func (d *Dir) MakeDir(name string) (*Dir, error) { return d.step(name, makeDir) }

func (d *Dir) step(name string, open func(*os.Root, string) (*os.Root, error)) (*Dir, error) {
	if err := checkComponent(name); err != nil {
		return nil, err
	}
	root, err := open(d.root, name)
	if err != nil {
		return nil, err
	}
	return &Dir{root}, nil
}

// Descend opens the folder that names lead to, this one for none. With Make it
// makes what is missing on the way.
func (d *Dir) Descend(names []string, missing Missing) (*Dir, error) {
	open := (*Dir).OpenDir
	if missing == Make {
		open = (*Dir).MakeDir
	}
	at, err := d.again()
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		var next *Dir
		next, err = open(at, name)
		at.Close()
		at = next
	}
	return at, err
}

// Missing says what happens to a folder that does not exist.
type Missing uint8

const (
	Refuse Missing = iota // fs.ErrNotExist
	Make                  // it is made
)

func (d *Dir) again() (*Dir, error) {
	root, err := d.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	return &Dir{root}, nil
}

// Same reports whether two handles are of the same folder.
func (d *Dir) Same(other *Dir) (bool, error) {
	mine, err := d.root.Stat(".")
	if err != nil {
		return false, err
	}
	others, err := other.root.Stat(".")
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, others), nil
}

// Lstat describes an entry.
func (d *Dir) Lstat(name string) (fs.FileInfo, error) {
	if err := checkComponent(name); err != nil {
		return nil, err
	}
	return d.root.Lstat(name)
}

// Regular describes an entry that must be a regular file.
func (d *Dir) Regular(name string) (fs.FileInfo, error) {
	info, err := d.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, refusal(name, ErrNotRegular, info.Mode())
	}
	return info, nil
}

// OpenFile opens a regular file for reading and describes it. It never waits,
// not even where a FIFO takes the file's place meanwhile.
func (d *Dir) OpenFile(name string) (*os.File, fs.FileInfo, error) {
	seen, err := d.Regular(name)
	if err != nil {
		return nil, nil, err
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil && (!opened.Mode().IsRegular() || !os.SameFile(seen, opened)) {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrSwapped}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, opened, nil
}

// CreateFile makes a file that must not exist yet (fs.ErrExist) and opens it for
// writing.
func (d *Dir) CreateFile(name string) (*os.File, error) {
	if err := checkComponent(name); err != nil {
		return nil, err
	}
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateFileMode)
}

// Remove removes a file or an empty folder; of a link, the link.
func (d *Dir) Remove(name string) error {
	if err := checkComponent(name); err != nil {
		return err
	}
	return d.root.Remove(name)
}

// Replace gives the file called from the name to, in place of a regular file of
// that name, and forces the folder to disk.
func (d *Dir) Replace(from, to string) error {
	if err := errors.Join(checkComponent(from), checkComponent(to)); err != nil {
		return err
	}
	if _, err := d.Regular(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.root.Rename(from, to); err != nil {
		return err
	}
	return syncRoot(d.root)
}

// Entries calls visit with each entry, in no order and not followed where it is
// a link, until visit returns false. What vanishes meanwhile is left out.
func (d *Dir) Entries(visit func(fs.FileInfo) bool) error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		// Names only: what File.ReadDir tells of a file is found by its path
		// in some releases of Go, which may lead elsewhere by now.
		names, err := f.Readdirnames(listBatch)
		for _, name := range names {
			info, err := d.root.Lstat(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if !visit(info) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
			return nil // the latter: the folder itself was removed
		}
		if err != nil {
			return err
		}
	}
}

// checkComponent refuses what is not the name of one entry. Paths are judged
// before they come here; this keeps a mistake there from leading anywhere.
func checkComponent(name string) error {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") || !localName(name) {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return nil
}
