//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrepareHomeMakesPrivateFolders(t *testing.T) {
	home := filepath.Join(t.TempDir(), "deep", "home")
	repaired, err := prepareHome(home)
	if err != nil {
		t.Fatal(err)
	}
	if len(repaired) > 0 {
		t.Errorf("a fresh home needed repair: %v", repaired)
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
