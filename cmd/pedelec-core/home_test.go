//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

func TestPrepareHomeMakesPrivateFolders(t *testing.T) {
	home := filepath.Join(t.TempDir(), "deep", "home")
	for _, step := range []func(string) ([]repair, error){prepareHome, clearHome} {
		repaired, err := step(home)
		if err != nil {
			t.Fatal(err)
		}
		if len(repaired) > 0 {
			t.Errorf("a fresh home needed repair: %v", repaired)
		}
	}
	for _, dir := range []string{home, filepath.Join(home, logFolder)} {
		wantMode(t, dir, folderMode)
	}
}

func TestPrepareHomeRepairsModes(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	loose := filepath.Join(home, settingsFile)
	if err := os.WriteFile(loose, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(home, "notes.txt")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	repaired, err := prepareHome(home)
	if err != nil {
		t.Fatal(err)
	}
	if len(repaired) != 2 {
		t.Errorf("repaired %v; want the folder and the settings", repaired)
	}
	wantMode(t, home, folderMode)
	wantMode(t, loose, fileMode)
	wantMode(t, other, 0o644)
}

func TestPrepareHomeRefusesWhatIsNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareHome(path); err == nil || !strings.Contains(err.Error(), "--home") {
		t.Errorf("error = %v; want one that says what to do", err)
	}
}

func TestPrepareHomeRefusesAFolderOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	home := t.TempDir()
	if err := os.Chown(home, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareHome(home); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("error = %v; want a refusal that names the owner", err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("it made %v in it, %v", left, err)
	}
}

func TestClearHomeSetsAsideWhatIsInItsWay(t *testing.T) {
	home := privateFolder(t)
	inTheWay := map[string]func(string) error{
		ipc.RuntimeFileName:                        usedFolder,
		ipc.AgentRuntimeFileName:                   usedFolder,
		filepath.Join(logFolder, logFile):          func(path string) error { return os.Symlink(filepath.Join(home, "gone", "away"), path) },
		binFolder:                                  func(path string) error { return os.WriteFile(path, []byte("somebody's"), 0o600) },
		workspaceFolder:                            func(path string) error { return os.Symlink(filepath.Join(home, "gone"), path) },
		filepath.Join("unrelated", "runtime.json"): usedFolder,
	}
	for name, put := range inTheWay {
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), put(path)); err != nil {
			t.Fatal(err)
		}
	}
	if repaired, err := prepareHome(home); err != nil || len(repaired) > 0 {
		t.Errorf("without the lock this was done: %v, %v", repaired, err)
	}
	repaired, err := clearHome(home)
	if err != nil {
		t.Fatal(err)
	}
	if len(repaired) != len(inTheWay)-1 {
		t.Errorf("%d were repaired: %v", len(repaired), repaired)
	}
	for _, r := range repaired {
		if r.movedTo == "" {
			t.Errorf("the mode of %s was changed", r.path)
			continue
		}
		if _, err := os.Lstat(r.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still in the way: %v", r.path, err)
		}
		if _, err := os.Lstat(r.movedTo); err != nil {
			t.Errorf("%s is lost: %v", r.path, err)
		}
	}
	if got, want := len(setAsideIn(home)), len(repaired); got != want {
		t.Errorf("%d set aside are found, want %d", got, want)
	}
}

func privateFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, folderMode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func usedFolder(path string) error {
	return errors.Join(os.MkdirAll(path, 0o700), os.WriteFile(filepath.Join(path, "keep"), []byte("somebody's"), 0o600))
}

func TestPrepareHomeOpensWhatIsShutToItsOwner(t *testing.T) {
	home := privateFolder(t)
	path := filepath.Join(home, storeFile)
	if err := os.WriteFile(path, nil, 0); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(home, settingsFile)
	if err := os.WriteFile(settings, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	repaired, err := prepareHome(home)
	if err != nil || len(repaired) != 1 || repaired[0].path != path {
		t.Errorf("repaired %v: %v", repaired, err)
	}
	wantMode(t, path, fileMode)
	wantMode(t, settings, 0o400)
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", path, got, want)
	}
}
