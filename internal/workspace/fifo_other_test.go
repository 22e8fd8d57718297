//go:build !windows

package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// A FIFO must never block us: nobody opens its other end.
func TestFIFOsAreRefusedWithoutBlocking(t *testing.T) {
	m, home := newManager(t)
	project := filepath.Join(home, "p")
	must(t, os.Mkdir(project, 0o700))
	must(t, syscall.Mkfifo(filepath.Join(project, markerName), 0o600))
	_, _, _, err := m.CreateCustom(project, "1", "https://app.example")
	wantCode(t, err, fault.WorkspaceCreateFailed, "path", "error")

	must(t, syscall.Mkfifo(filepath.Join(home, "fifo"), 0o600))
	_, _, _, err = m.CreateCustom(filepath.Join(home, "fifo"), "", "")
	wantCode(t, err, fault.WorkspacePathInvalid, "workspacePath", "managedWorkspaceRoot")

	must(t, syscall.Mkfifo(filepath.Join(project, privateName), 0o600))
	if _, err := m.PrivateDir(project, threadA); err == nil {
		t.Error("a FIFO was taken for the private folder")
	}
}

func TestReopenOfAFolderThatCannotBeWritten(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	m, home := newManager(t)
	must(t, os.Chmod(home, 0o500))
	t.Cleanup(func() { _ = os.Chmod(home, 0o700) })
	if err := m.Reopen(home); err == nil {
		t.Error("a read-only workspace was accepted")
	}
}

// The managed root under another name, which only its identity gives away.
func TestInsideFindsTheSameFolderByIdentity(t *testing.T) {
	_, home := newManager(t)
	must(t, os.MkdirAll(filepath.Join(home, "a", "b"), 0o700))
	must(t, os.Symlink(filepath.Join(home, "a"), filepath.Join(home, "other-name")))
	for path, want := range map[string]bool{
		filepath.Join(home, "other-name"):                true,
		filepath.Join(home, "other-name", "b"):           true,
		filepath.Join(home, "other-name", "new", "deep"): true,
		home: false,
	} {
		if got := inside(path, filepath.Join(home, "a")); got != want {
			t.Errorf("inside(%q) = %v, want %v", path, got, want)
		}
	}
}

func TestOpenFileOfAFIFODoesNotBlock(t *testing.T) {
	d, home := makeAssets(t)
	must(t, syscall.Mkfifo(inAssets(home, "fifo"), 0o600))
	if _, _, err := d.OpenFile("fifo"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("error %v", err)
	}
	// As it is where a FIFO takes a file's place after the first look.
	f, err := d.root.OpenFile("fifo", os.O_RDONLY|openNonblock, 0)
	must(t, err)
	f.Close()
}
