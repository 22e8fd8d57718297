package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// makeAssets opens the assets folder of a fresh workspace and returns the path
// of the workspace.
func makeAssets(t testing.TB) (*Dir, string) {
	t.Helper()
	_, home := newManager(t)
	d, err := MakeAssets(home)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d, home
}

func inAssets(home string, names ...string) string {
	return filepath.Join(append([]string{home, privateName, assetsName}, names...)...)
}

func TestOpenAssetsMakesNothing(t *testing.T) {
	_, home := newManager(t)
	if _, err := OpenAssets(home); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if exists(t, filepath.Join(home, privateName)) {
		t.Error("the private folder was made")
	}
	made, err := MakeAssets(home)
	must(t, err)
	defer made.Close()
	opened, err := OpenAssets(home)
	must(t, err)
	defer opened.Close()
	if same, err := made.Same(opened); err != nil || !same {
		t.Errorf("same %t, %v", same, err)
	}
	if !exists(t, filepath.Join(home, privateName, gitignoreName)) {
		t.Error("the private folder is not whole")
	}
}

func TestAssetsThatAreALinkAreRefused(t *testing.T) {
	for _, at := range []string{privateName, filepath.Join(privateName, assetsName)} {
		_, home := newManager(t)
		must(t, os.MkdirAll(filepath.Join(home, "src", assetsName), 0o700))
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, at)), 0o700))
		must(t, os.Symlink(filepath.Join(home, "src"), filepath.Join(home, at)))
		for _, open := range []func(string) (*Dir, error){OpenAssets, MakeAssets} {
			if _, err := open(home); !errors.Is(err, ErrLink) || !errors.Is(err, ErrNotDirectory) {
				t.Errorf("%s: error %v", at, err)
			}
		}
	}
}

func TestDescend(t *testing.T) {
	d, home := makeAssets(t)
	if _, err := d.Descend([]string{"a", "b"}, Refuse); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	made, err := d.Descend([]string{"a", "b"}, Make)
	must(t, err)
	defer made.Close()
	if !exists(t, inAssets(home, "a", "b")) {
		t.Error("the folders were not made")
	}
	here, err := d.Descend(nil, Refuse)
	must(t, err)
	defer here.Close()
	if same, err := here.Same(d); err != nil || !same {
		t.Errorf("no step leads elsewhere: %t, %v", same, err)
	}
	if same, err := made.Same(d); err != nil || same {
		t.Errorf("two steps lead nowhere: %t, %v", same, err)
	}
}

func TestNamesThatAreNoSingleComponent(t *testing.T) {
	d, home := makeAssets(t)
	must(t, os.Mkdir(inAssets(home, "d"), 0o700))
	for _, name := range []string{"", ".", "..", "../x", "d/x", "/", "/etc", "d/"} {
		for call, err := range map[string]error{
			"OpenDir":  second(d.OpenDir(name)),
			"MakeDir":  second(d.MakeDir(name)),
			"Lstat":    second(d.Lstat(name)),
			"Regular":  second(d.Regular(name)),
			"Create":   second(d.CreateFile(name)),
			"Remove":   d.Remove(name),
			"Replace":  d.Replace(name, "x"),
			"Replace2": d.Replace("x", name),
			"OpenFile": func() error { _, _, err := d.OpenFile(name); return err }(),
		} {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s(%q): %v", call, name, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestOpenFileOpensRegularFilesOnly(t *testing.T) {
	d, home := makeAssets(t)
	must(t, os.WriteFile(inAssets(home, "file"), []byte("content"), 0o600))
	must(t, os.Mkdir(inAssets(home, "dir"), 0o700))
	must(t, os.Symlink("file", inAssets(home, "link")))
	must(t, os.Symlink("none", inAssets(home, "dangling")))
	f, info, err := d.OpenFile("file")
	must(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil || string(data) != "content" || info.Size() != 7 {
		t.Errorf("read %q, %v", data, err)
	}
	for name, want := range map[string]error{"dir": ErrNotRegular, "link": ErrLink, "dangling": ErrLink, "none": fs.ErrNotExist} {
		if _, _, err := d.OpenFile(name); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
	}
}

func TestCreateFileFollowsNothing(t *testing.T) {
	d, home := makeAssets(t)
	must(t, os.Symlink(filepath.Join(home, "outside"), inAssets(home, "dangling")))
	if _, err := d.CreateFile("dangling"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	if exists(t, filepath.Join(home, "outside")) {
		t.Error("a file was made behind the link")
	}
	f, err := d.CreateFile("new")
	must(t, err)
	must(t, f.Close())
	if _, err := d.CreateFile("new"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
}

func TestReplace(t *testing.T) {
	d, home := makeAssets(t)
	write := func(name, content string) {
		must(t, os.WriteFile(inAssets(home, name), []byte(content), 0o600))
	}
	write("old", "old")
	write("new", "new")
	must(t, d.Replace("new", "old"))
	if data, _ := os.ReadFile(inAssets(home, "old")); string(data) != "new" || exists(t, inAssets(home, "new")) {
		t.Errorf("the file holds %q", data)
	}
	write("new", "new")
	must(t, d.Replace("new", "fresh"))
	write("new", "new")
	must(t, os.Mkdir(inAssets(home, "dir"), 0o700))
	must(t, os.Symlink("old", inAssets(home, "link")))
	for _, name := range []string{"dir", "link"} {
		if err := d.Replace("new", name); !errors.Is(err, ErrNotRegular) {
			t.Errorf("over %s: %v", name, err)
		}
	}
	if !exists(t, inAssets(home, "new")) {
		t.Error("the file is gone")
	}
	must(t, d.Remove("link"))
	if !exists(t, inAssets(home, "old")) {
		t.Error("the link's target was removed")
	}
}

func TestEntries(t *testing.T) {
	d, home := makeAssets(t)
	const files = 3 * listBatch / 2
	for i := range files {
		must(t, os.WriteFile(inAssets(home, fmt.Sprint(i)), nil, 0o600))
	}
	must(t, os.Symlink(home, inAssets(home, "link")))
	must(t, os.Mkdir(inAssets(home, "dir"), 0o700))
	kinds := map[fs.FileMode]int{}
	must(t, d.Entries(func(info fs.FileInfo) bool { kinds[info.Mode().Type()]++; return true }))
	if kinds[0] != files || kinds[fs.ModeSymlink] != 1 || kinds[fs.ModeDir] != 1 {
		t.Errorf("got %v", kinds)
	}
	var first []string
	must(t, d.Entries(func(info fs.FileInfo) bool { first = append(first, info.Name()); return false }))
	if len(first) != 1 {
		t.Errorf("it went on after false: %v", first)
	}
}

func TestEntriesOfAFolderThatIsRemoved(t *testing.T) {
	d, home := makeAssets(t)
	sub, err := d.MakeDir("sub")
	must(t, err)
	defer sub.Close()
	must(t, os.Remove(inAssets(home, "sub")))
	must(t, sub.Entries(func(info fs.FileInfo) bool { t.Errorf("entry %s", info.Name()); return true }))
}

// A handle stays the folder that it was, wherever its path leads by now.
func TestADirStaysWhatItWas(t *testing.T) {
	d, home := makeAssets(t)
	sub, err := d.MakeDir("sub")
	must(t, err)
	defer sub.Close()
	must(t, os.Rename(inAssets(home, "sub"), filepath.Join(home, "moved")))
	must(t, os.Symlink(home, inAssets(home, "sub")))
	f, err := sub.CreateFile("f")
	must(t, err)
	must(t, f.Close())
	if !exists(t, filepath.Join(home, "moved", "f")) || exists(t, filepath.Join(home, "f")) {
		t.Error("the file is elsewhere")
	}
	if _, err := d.OpenDir("sub"); !errors.Is(err, ErrLink) {
		t.Errorf("error %v", err)
	}
}

func TestRefusalsSayWhatIsWrong(t *testing.T) {
	d, home := makeAssets(t)
	must(t, os.Symlink(home, inAssets(home, "l")))
	must(t, os.WriteFile(inAssets(home, "f"), nil, 0o600))
	texts := []string{second(d.OpenDir("l")).Error(), second(d.OpenDir("f")).Error(), second(d.Regular("l")).Error()}
	want := []string{
		"open l: is not a real directory but a symbolic link",
		"open f: is not a real directory",
		"open l: is not a regular file but a symbolic link",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q", texts)
	}
}
