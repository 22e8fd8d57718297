package workspace

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestAFailedCreationLeavesTheFolderToTheOther: of two creations in one folder that
// did not exist, the one that failed once took the folder, or the marker, from the
// other.
func TestAFailedCreationLeavesTheFolderToTheOther(t *testing.T) {
	const made, found = true, false // by the creation that fails
	for name, failing := range map[string]bool{"of the one that made it": made, "of the one that found it": found} {
		t.Run(name, func(t *testing.T) {
			m, home := newManager(t)
			path := filepath.Join(home, "deep", "project")
			_, keepFirst, undoFirst, err := m.CreateCustom(path, "1", "https://app.example")
			must(t, err)
			_, keepSecond, undoSecond, err := m.CreateCustom(path, "1", "https://app.example")
			must(t, err)
			if failing == made {
				undoFirst()
				keepSecond()
			} else {
				undoSecond()
				keepFirst()
			}
			if !exists(t, filepath.Join(path, markerName)) {
				t.Error("the folder or its marker is gone")
			}
			if n := len(m.claims.open); n > 0 {
				t.Errorf("%d claims are left", n)
			}
		})
	}
	t.Run("after the other succeeded", func(t *testing.T) {
		m, home := newManager(t)
		path := filepath.Join(home, "deep", "project")
		_, _, undoFirst, err := m.CreateCustom(path, "", "")
		must(t, err)
		_, keepSecond, _, err := m.CreateCustom(path, "", "")
		must(t, err)
		keepSecond()
		undoFirst()
		if !exists(t, path) {
			t.Error("the folder is gone")
		}
	})
	t.Run("that came through a link", func(t *testing.T) { // two names were two folders
		m, home := newManager(t)
		must(t, os.Mkdir(filepath.Join(home, "real"), 0o700))
		if err := os.Symlink(filepath.Join(home, "real"), filepath.Join(home, "link")); err != nil {
			t.Skipf("this system makes no symbolic links: %v", err)
		}
		path := filepath.Join(home, "real", "project")
		_, _, undoFirst, err := m.CreateCustom(path, "1", "https://app.example")
		must(t, err)
		_, keepSecond, _, err := m.CreateCustom(filepath.Join(home, "link", "project"), "1", "https://app.example")
		must(t, err)
		undoFirst()
		if !exists(t, filepath.Join(path, markerName)) {
			t.Error("the folder or its marker is gone")
		}
		keepSecond()
		if n := len(m.claims.open); n > 0 {
			t.Errorf("%d claims are left", n)
		}
	})
	t.Run("of a folder beside it", func(t *testing.T) {
		m, home := newManager(t)
		_, _, undoFirst, err := m.CreateCustom(filepath.Join(home, "deep", "one"), "", "")
		must(t, err)
		_, keepSecond, _, err := m.CreateCustom(filepath.Join(home, "deep"), "", "")
		must(t, err)
		undoFirst()
		keepSecond()
		if !exists(t, filepath.Join(home, "deep")) || exists(t, filepath.Join(home, "deep", "one")) {
			t.Error("the wrong folder was removed")
		}
	})
}

func TestCreationsThatAllFailLeaveNothing(t *testing.T) {
	m, home := newManager(t)
	path := filepath.Join(home, "deep", "project")
	var undos []func()
	for range 3 {
		_, _, undo, err := m.CreateCustom(path, "1", "https://app.example")
		must(t, err)
		undos = append(undos, undo, undo)
	}
	for _, undo := range undos {
		undo()
	}
	if exists(t, filepath.Join(home, "deep")) {
		t.Error("something is left")
	}
}

func TestManyCreationsInOneFolderAtOnce(t *testing.T) {
	m, home := newManager(t)
	for range 200 {
		path := filepath.Join(home, "deep", "project")
		var all sync.WaitGroup
		kept := make(chan struct{}, 1)
		for i := range 4 {
			all.Go(func() {
				_, keep, undo, err := m.CreateCustom(path, "1", "https://app.example")
				if err != nil {
					t.Error(err)
					return
				}
				if i > 0 {
					undo()
					return
				}
				keep()
				kept <- struct{}{}
			})
		}
		<-kept
		if !exists(t, path) {
			t.Fatal("the folder of a thread is gone")
		}
		all.Wait()
		if !exists(t, path) {
			t.Fatal("the folder of a thread was removed behind it")
		}
		must(t, os.RemoveAll(filepath.Join(home, "deep")))
	}
	if n := len(m.claims.open); n > 0 {
		t.Errorf("%d claims are left", n)
	}
}
