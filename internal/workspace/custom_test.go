package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestCreateCustomAppliesThePathRule(t *testing.T) {
	for _, c := range []struct {
		name string
		// prepare may change the home and returns the path to ask for.
		prepare func(t *testing.T, home, root string) string
		code    fault.Code // "" = accepted
		rule    string     // a word of the message
	}{
		{"relative", func(*testing.T, string, string) string { return "project" }, fault.WorkspacePathInvalid, "absolute"},
		{"empty", func(*testing.T, string, string) string { return "" }, fault.WorkspacePathInvalid, "absolute"},
		{"tilde is not expanded", func(*testing.T, string, string) string { return "~/project" }, fault.WorkspacePathInvalid, "absolute"},
		{"blank in front is not trimmed", func(_ *testing.T, home, _ string) string { return " " + home }, fault.WorkspacePathInvalid, "absolute"},
		{"the managed root", func(_ *testing.T, _, root string) string { return root }, fault.WorkspacePathInvalid, "own workspaces"},
		{"in the managed root", func(_ *testing.T, _, root string) string { return filepath.Join(root, "x", "y") }, fault.WorkspacePathInvalid, "lies in"},
		{"the home directory", func(_ *testing.T, home, _ string) string { return home }, fault.WorkspacePathInvalid, "home directory"},
		{"the file system's root", func(*testing.T, string, string) string { return string(filepath.Separator) }, fault.WorkspacePathInvalid, "holds"},
		{"dots are popped before links", func(_ *testing.T, home, root string) string { return home + "/nowhere/../.pedelec/workspaces" }, fault.WorkspacePathInvalid, "own workspaces"},
		{"a link to the managed root", func(t *testing.T, home, root string) string {
			must(t, os.MkdirAll(root, 0o700))
			must(t, os.Symlink(root, filepath.Join(home, "link")))
			return filepath.Join(home, "link")
		}, fault.WorkspacePathInvalid, "own workspaces"},
		{"missing folder below a link into the managed root", func(t *testing.T, home, root string) string {
			must(t, os.MkdirAll(root, 0o700))
			must(t, os.Symlink(root, filepath.Join(home, "link")))
			return filepath.Join(home, "link", "new", "deep")
		}, fault.WorkspacePathInvalid, "lies in"},
		{"a link to the home directory", func(t *testing.T, home, _ string) string {
			must(t, os.Symlink(home, filepath.Join(home, "link")))
			return filepath.Join(home, "link")
		}, fault.WorkspacePathInvalid, "holds"},
		{"the managed root is a link to the folder", func(t *testing.T, home, root string) string {
			must(t, os.Mkdir(filepath.Join(home, "disk"), 0o700))
			must(t, os.Mkdir(filepath.Dir(root), 0o700))
			must(t, os.Symlink(filepath.Join(home, "disk"), root))
			return filepath.Join(home, "disk", "sub")
		}, fault.WorkspacePathInvalid, "lies in"},
		{"a file", func(t *testing.T, home, _ string) string {
			must(t, os.WriteFile(filepath.Join(home, "file"), nil, 0o600))
			return filepath.Join(home, "file")
		}, fault.WorkspacePathInvalid, "not a directory"},
		{"below a file", func(t *testing.T, home, _ string) string {
			must(t, os.WriteFile(filepath.Join(home, "file"), nil, 0o600))
			return filepath.Join(home, "file", "sub")
		}, fault.WorkspaceCreateFailed, ""},
		{"a dangling link", func(t *testing.T, home, _ string) string {
			must(t, os.Symlink(filepath.Join(home, "nowhere"), filepath.Join(home, "link")))
			return filepath.Join(home, "link")
		}, fault.WorkspaceCreateFailed, ""},
		{"a NUL byte", func(_ *testing.T, home, _ string) string { return home + "/a\x00b" }, fault.WorkspaceCreateFailed, ""},
		{"a name that is too long", func(_ *testing.T, home, _ string) string {
			return filepath.Join(home, "a", strings.Repeat("x", 300))
		}, fault.WorkspaceCreateFailed, ""},
		{"missing, with parents", func(_ *testing.T, home, _ string) string { return filepath.Join(home, "a", "b", "c") }, "", ""},
		{"beside the managed root", func(_ *testing.T, home, root string) string { return root + "-other" }, "", ""},
		{"an existing folder", func(t *testing.T, home, _ string) string {
			must(t, os.Mkdir(filepath.Join(home, "project"), 0o700))
			return filepath.Join(home, "project")
		}, "", ""},
		{"a link to a folder", func(t *testing.T, home, _ string) string {
			must(t, os.Mkdir(filepath.Join(home, "project"), 0o700))
			must(t, os.Symlink(filepath.Join(home, "project"), filepath.Join(home, "link")))
			return filepath.Join(home, "link")
		}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, home := newManager(t)
			path := c.prepare(t, home, m.root)
			before := tree(t, home)
			canonicalPath, _, undo, err := m.CreateCustom(path, "", "")
			switch c.code {
			case "":
				must(t, err)
				real, err := filepath.EvalSymlinks(path)
				must(t, err)
				if canonicalPath != real {
					t.Errorf("canonical %q, want %q", canonicalPath, real)
				}
				undo()
			case fault.WorkspacePathInvalid:
				e := wantCode(t, err, c.code, "workspacePath", "managedWorkspaceRoot")
				if !strings.Contains(e.Msg, c.rule) {
					t.Errorf("message %q does not name the rule %q", e.Msg, c.rule)
				}
			default:
				wantCode(t, err, c.code, "path", "error")
			}
			if after := tree(t, home); after != before {
				t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// tree lists what is below a folder, links not followed.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		b.WriteString(path + "\n")
		return err
	}))
	return b.String()
}

func TestCreateCustomWritesTheMarkerOnce(t *testing.T) {
	m, home := newManager(t)
	path := filepath.Join(home, "new", "project")
	marker := filepath.Join(path, ".pedelec-workspace.json")
	_, _, undo, err := m.CreateCustom(path, "1.2.3", "https://app.example")
	must(t, err)
	data, err := os.ReadFile(marker)
	must(t, err)
	want := "{\n\t\"sdk-version\": \"1.2.3\",\n\t\"origin\": \"https://app.example\"\n}\n"
	if string(data) != want {
		t.Errorf("marker %q, want %q", data, want)
	}
	_, _, undoSecond, err := m.CreateCustom(path, "9", "https://other.example")
	must(t, err)
	undoSecond()
	data, err = os.ReadFile(marker)
	must(t, err)
	if string(data) != want {
		t.Errorf("the marker became %q", data)
	}
	undo()
	if exists(t, filepath.Join(home, "new")) {
		t.Error("undo left something")
	}
}

func TestCreateCustomWithoutAnOriginWritesNoMarker(t *testing.T) {
	m, home := newManager(t)
	_, _, _, err := m.CreateCustom(filepath.Join(home, "p"), "1.2.3", "")
	must(t, err)
	if exists(t, filepath.Join(home, "p", markerName)) {
		t.Error("a marker was written")
	}
}

func TestCreateCustomNeedsAnSDKVersionFromAPage(t *testing.T) {
	m, home := newManager(t)
	_, _, _, err := m.CreateCustom(filepath.Join(home, "p"), " \t", "https://app.example")
	wantCode(t, err, fault.WorkspaceCreateFailed, "path", "error")
	if exists(t, filepath.Join(home, "p")) {
		t.Error("the folder was made")
	}
}

func TestCreateCustomLeavesAnyRegularMarkerAlone(t *testing.T) {
	m, home := newManager(t)
	must(t, os.WriteFile(filepath.Join(home, markerName), []byte("{broken"), 0o600))
	project := filepath.Join(home, "p")
	must(t, os.Mkdir(project, 0o700))
	must(t, os.WriteFile(filepath.Join(project, markerName), []byte("{broken"), 0o600))
	_, _, undo, err := m.CreateCustom(project, "1", "https://app.example")
	must(t, err)
	undo()
	if data, _ := os.ReadFile(filepath.Join(project, markerName)); string(data) != "{broken" {
		t.Errorf("the marker became %q", data)
	}
}

func TestCreateCustomRefusesAnyOtherKindOfMarker(t *testing.T) {
	kinds := map[string]func(t *testing.T, path, home string){
		"folder":        func(t *testing.T, path, _ string) { must(t, os.Mkdir(path, 0o700)) },
		"link":          func(t *testing.T, path, home string) { must(t, os.Symlink(filepath.Join(home, "victim"), path)) },
		"dangling link": func(t *testing.T, path, home string) { must(t, os.Symlink(filepath.Join(home, "nowhere"), path)) },
	}
	for name, make := range kinds {
		t.Run(name, func(t *testing.T) {
			m, home := newManager(t)
			must(t, os.WriteFile(filepath.Join(home, "victim"), []byte("mine"), 0o600))
			project := filepath.Join(home, "p")
			must(t, os.Mkdir(project, 0o700))
			make(t, filepath.Join(project, markerName), home)
			_, _, _, err := m.CreateCustom(project, "1", "https://app.example")
			wantCode(t, err, fault.WorkspaceCreateFailed, "path", "error")
			if data, _ := os.ReadFile(filepath.Join(home, "victim")); string(data) != "mine" || exists(t, filepath.Join(home, "nowhere")) {
				t.Error("the link was followed")
			}
		})
	}
}

func TestUndoKeepsWhatIsInUse(t *testing.T) {
	m, home := newManager(t)
	path := filepath.Join(home, "a", "b")
	_, _, undo, err := m.CreateCustom(path, "1", "https://app.example")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(path, "work"), nil, 0o600))
	undo()
	if !exists(t, filepath.Join(path, "work")) || exists(t, filepath.Join(path, markerName)) {
		t.Error("undo took more, or less, than it had made")
	}
}

func TestUndoKeepsWhatTookTheFoldersPlace(t *testing.T) {
	m, home := newManager(t)
	path := filepath.Join(home, "a")
	_, _, undo, err := m.CreateCustom(path, "1", "https://app.example")
	must(t, err)
	must(t, os.Rename(path, filepath.Join(home, "moved")))
	must(t, os.Mkdir(path, 0o700))
	must(t, os.WriteFile(filepath.Join(path, markerName), nil, 0o600))
	undo()
	if !exists(t, filepath.Join(path, markerName)) {
		t.Error("undo removed a marker that it had not written")
	}
}

func TestCreateCustomThatFailsAtTheEndLeavesNothing(t *testing.T) {
	m, home := newManager(t)
	arm(t, "workspace.custom.made=error")
	_, _, _, err := m.CreateCustom(filepath.Join(home, "a", "b"), "1", "https://app.example")
	wantCode(t, err, fault.WorkspaceCreateFailed, "path", "error")
	if exists(t, filepath.Join(home, "a")) {
		t.Error("the folder stayed")
	}
}

func TestStripVerbatim(t *testing.T) {
	for in, want := range map[string]string{
		`\\?\C:\Users\x`:        `C:\Users\x`,
		`\\?\UNC\server\share`:  `\\server\share`,
		`\\?\unc\server\share`:  `\\server\share`,
		`\\?\Volume{ab-cd}\x`:   `\\?\Volume{ab-cd}\x`,
		`C:\x`:                  `C:\x`,
		`/home/x`:               `/home/x`,
		`\\?\`:                  `\\?\`,
		`\\?\UNC`:               `\\?\UNC`,
		`\\server\share\folder`: `\\server\share\folder`,
	} {
		if got := stripVerbatim(in); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// FuzzOverlapRule checks the lexical rule against the definition: of two clean
// paths one equals, holds or lies in the other exactly when the one's
// components are a prefix of the other's.
func FuzzOverlapRule(f *testing.F) {
	for _, p := range [][2]string{{"/a/b", "/a"}, {"/", "/a"}, {"/a", "/ab"}, {"/a/../b", "/b"}, {"//a", "/a/."}} {
		f.Add(p[0], p[1])
	}
	f.Fuzz(func(t *testing.T, path, root string) {
		sep := string(filepath.Separator)
		path, root = cleanPath(sep+path), cleanPath(sep+root)
		a, b := components(path), components(root)
		n := min(len(a), len(b))
		prefix := strings.Join(a[:n], sep) == strings.Join(b[:n], sep)
		if got := overlapRule(path, root) != ""; got != prefix {
			t.Errorf("overlap of %q and %q: %v, want %v", path, root, got, prefix)
		}
		if (overlapRule(path, root) == "") != (overlapRule(root, path) == "") {
			t.Errorf("the rule is not symmetric for %q and %q", path, root)
		}
	})
}

func components(path string) []string {
	trimmed := strings.Trim(path, string(filepath.Separator))
	if trimmed == "" {
		return nil
	}
	return strings.Split(trimmed, string(filepath.Separator))
}

// FuzzCreateCustom asks for any path below a home, and beside it nothing may
// appear, whatever is answered.
func FuzzCreateCustom(f *testing.F) {
	for _, p := range []string{"a/b", "../x", ".pedelec/workspaces/x", "./.pedelec/../.pedelec/workspaces", "link/x", "a//b/", "\x00"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, sub string) {
		m, home := newManager(t)
		must(t, os.MkdirAll(m.root, 0o700))
		must(t, os.Symlink(m.root, filepath.Join(home, "link")))
		base := filepath.Join(home, "base") // ".." may leave it, but not the home unnoticed
		if strings.Count(sub, "..") > 0 && !strings.HasPrefix(filepath.Clean(base+"/"+sub), home) {
			t.Skip()
		}
		path, _, undo, err := m.CreateCustom(base+"/"+sub, "", "")
		if entries, readErr := os.ReadDir(m.root); readErr != nil || len(entries) != 0 {
			t.Fatalf("%q reached the managed root: %v %v", sub, entries, readErr)
		}
		if err != nil {
			return
		}
		if !strings.HasPrefix(path, home+"/") || overlapRule(path, m.root) != "" {
			t.Fatalf("%q was accepted as %q", sub, path)
		}
		undo()
	})
}
