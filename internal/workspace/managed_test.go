package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestCreateManagedMakesACanonicalFolderOnce(t *testing.T) {
	m, home := newManager(t)
	path, undo, err := m.CreateManaged(threadA)
	must(t, err)
	if want := filepath.Join(home, ".pedelec", "workspaces", threadA); path != want {
		t.Errorf("path %q, want %q", path, want)
	}
	info, err := os.Stat(path)
	must(t, err)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, want 0700", info.Mode().Perm())
	}
	_, _, err = m.CreateManaged(threadA)
	wantCode(t, err, fault.WorkspaceCreateFailed, "path", "error")
	must(t, os.WriteFile(filepath.Join(path, "work"), nil, 0o600))
	undo()
	undo()
	if exists(t, path) {
		t.Error("undo left the folder")
	}
}

func TestCreateManagedThroughALinkedHomeReturnsTheRealPath(t *testing.T) {
	_, home := newManager(t)
	link := filepath.Join(home, "link")
	must(t, os.Mkdir(filepath.Join(home, "real"), 0o700))
	must(t, os.Symlink(filepath.Join(home, "real"), link))
	m := New(filepath.Join(link, "workspaces"))
	path, _, err := m.CreateManaged(threadA)
	must(t, err)
	if want := filepath.Join(home, "real", "workspaces", threadA); path != want {
		t.Errorf("path %q, want %q", path, want)
	}
	must(t, m.Reopen(path))
}

func TestCreateManagedRefusesWhatIsNoThreadID(t *testing.T) {
	m, _ := newManager(t)
	for _, id := range []string{"", ".", "..", "../x", "t0123456789abcde", "t0123456789abcdef0", "T0123456789abcdef", "t0123456789abcde/", "t0123456789abcde\n"} {
		if _, _, err := m.CreateManaged(id); err == nil {
			t.Errorf("%q was taken", id)
		}
		if err := m.RemoveManaged(t.Context(), id); err == nil {
			t.Errorf("%q was removed", id)
		}
	}
}

func TestCreateManagedThatFailsAfterMakingLeavesNothing(t *testing.T) {
	m, _ := newManager(t)
	arm(t, "workspace.managed.made=error")
	_, _, err := m.CreateManaged(threadA)
	wantCode(t, err, fault.WorkspaceCreateFailed, "path", "error")
	ids, err := m.ListManaged()
	must(t, err)
	if len(ids) != 0 {
		t.Errorf("left %v", ids)
	}
}

func TestCreateManagedWhereAFileStandsInForTheRoot(t *testing.T) {
	m, home := newManager(t)
	must(t, os.WriteFile(filepath.Join(home, ".pedelec"), nil, 0o600))
	_, _, err := m.CreateManaged(threadA)
	wantCode(t, err, fault.WorkspaceCreateFailed, "path", "error")
}

func TestRemoveManagedNeverFollowsLinks(t *testing.T) {
	m, home := newManager(t)
	outside := filepath.Join(home, "sources")
	must(t, os.Mkdir(outside, 0o700))
	must(t, os.WriteFile(filepath.Join(outside, "main.go"), []byte("x"), 0o600))
	path, _, err := m.CreateManaged(threadA)
	must(t, err)
	must(t, os.Symlink(outside, filepath.Join(path, "link")))
	must(t, m.RemoveManaged(t.Context(), threadA))
	must(t, m.RemoveManaged(t.Context(), threadA))
	if exists(t, path) || !exists(t, filepath.Join(outside, "main.go")) {
		t.Error("the workspace stayed, or the link's target went")
	}
	// A link in place of the workspace itself is not touched at all.
	must(t, os.Symlink(outside, path))
	if err := m.RemoveManaged(t.Context(), threadA); err == nil {
		t.Error("a link was taken for a workspace")
	}
	if !exists(t, path) || !exists(t, filepath.Join(outside, "main.go")) {
		t.Error("the link or its target went")
	}
}

func TestRemoveManagedEmptiesReadOnlyTrees(t *testing.T) {
	m, _ := newManager(t)
	path, _, err := m.CreateManaged(threadA)
	must(t, err)
	deep := filepath.Join(path, "pkg", "mod")
	must(t, os.MkdirAll(deep, 0o700))
	must(t, os.WriteFile(filepath.Join(deep, "file"), nil, 0o400))
	must(t, os.Chmod(deep, 0o500))
	must(t, os.Chmod(filepath.Join(path, "pkg"), 0o000))
	must(t, m.RemoveManaged(t.Context(), threadA))
	if exists(t, path) {
		t.Error("the folder stayed")
	}
}

func TestUnlockReachesFoldersBelowClosedOnes(t *testing.T) {
	m, _ := newManager(t)
	path, _, err := m.CreateManaged(threadA)
	must(t, err)
	deep := filepath.Join(path, "a", "b")
	must(t, os.MkdirAll(deep, 0o700))
	must(t, os.Chmod(deep, 0o500))
	must(t, os.Chmod(filepath.Join(path, "a"), 0o500))
	root, err := m.openRoot()
	must(t, err)
	defer root.Close()
	unlock(root, threadA)
	for _, p := range []string{deep, filepath.Join(path, "a")} {
		info, err := os.Stat(p)
		must(t, err)
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", p, info.Mode().Perm())
		}
	}
}

func TestRemoveAllManagedTakesOnlyFoldersNamedLikeThreads(t *testing.T) {
	m, home := newManager(t)
	if left := m.RemoveAllManaged(t.Context(), nil); left != nil {
		t.Fatalf("a missing root gave %v", left)
	}
	for _, id := range []string{threadA, threadB} {
		_, _, err := m.CreateManaged(id)
		must(t, err)
	}
	root := filepath.Join(home, ".pedelec", "workspaces")
	kept := []string{"notes", "t1111111111111111", "t2222222222222222", "t3333"}
	must(t, os.Mkdir(filepath.Join(root, kept[0]), 0o700))
	must(t, os.WriteFile(filepath.Join(root, kept[1]), nil, 0o600))
	must(t, os.Symlink(home, filepath.Join(root, kept[2])))
	must(t, os.Mkdir(filepath.Join(root, kept[3]), 0o700))

	left := m.RemoveAllManaged(t.Context(), func(id string) bool { return id == threadB })
	if len(left) != 0 {
		t.Errorf("leftovers %v", left)
	}
	entries, err := os.ReadDir(root)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := append(slices.Clone(kept), threadB)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("left %v, want %v", names, want)
	}
}

func TestRemoveAllManagedEndsWithItsContext(t *testing.T) {
	m, _ := newManager(t)
	_, _, err := m.CreateManaged(threadA)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left := m.RemoveAllManaged(ctx, nil)
	if len(left) != 1 || left[0].ThreadID != threadA || !errors.Is(left[0].Err, context.Canceled) {
		t.Errorf("leftovers %v", left)
	}
}

func TestPauseIsCutShortByTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if pause(ctx, time.Hour) {
		t.Error("the pause ended by itself")
	}
	if !pause(t.Context(), time.Microsecond) {
		t.Error("the pause was cut short")
	}
}

func BenchmarkCreateManaged(b *testing.B) {
	b.Run("manager", func(b *testing.B) {
		m, _ := newManager(b)
		for i := range b.N {
			_, _, err := m.CreateManaged(fmt.Sprintf("t%016d", i))
			must(b, err)
		}
	})
	b.Run("baseline-mkdir", func(b *testing.B) {
		dir := b.TempDir()
		for i := range b.N {
			must(b, os.Mkdir(filepath.Join(dir, fmt.Sprintf("t%016d", i)), 0o700))
		}
	})
}
