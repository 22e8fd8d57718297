package store

import (
	"errors"
	"os"
	"testing"
	"time"
)

// mostlyFree fills a store and deletes nearly all of it.
func mostlyFree(t *testing.T, s *Store) {
	t.Helper()
	must(t, s.Commit(modelCommit("kept", 1, 100)))
	for r := uint64(1); r <= 12; r++ {
		must(t, s.Commit(modelCommit("big", r, 200<<10)))
	}
	must(t, s.Delete("big"))
}

func smallLimits(s *Store) { s.CompactFree = 1 << 20 }

func TestAMostlyFreeFileIsCompactedWhenClosed(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path, smallLimits)
	mostlyFree(t, s)
	before, err := s.Size()
	must(t, err)
	if before.FreeBytes < before.FileBytes/2 {
		t.Fatalf("size %+v", before)
	}
	must(t, s.Close())
	info, err := os.Stat(path)
	must(t, err)
	if info.Size() > 1<<20 || info.Mode().Perm()&0o077 != 0 {
		t.Fatalf("%d bytes, mode %v after closing; %d before", info.Size(), info.Mode(), before.FileBytes)
	}
	s = openAt(t, path)
	_, err = checkThread(s, "kept")
	must(t, err)
	wantEqual(t, s.WasUnclean(), false)
}

func TestALargeFileIsNotCompactedWhenClosed(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path, smallLimits, func(s *Store) { s.CompactAtExit = 1 << 20 })
	mostlyFree(t, s)
	must(t, s.Close())
	info, err := os.Stat(path)
	must(t, err)
	if info.Size() < 1<<20 {
		t.Fatalf("%d bytes", info.Size())
	}
}

type compactionEnd struct {
	replaced bool
	err      error
}

// watched makes compactions start at once and tells how they end.
func watched(ends chan compactionEnd) func(*Store) {
	return func(s *Store) {
		s.CompactAfter = time.Millisecond
		s.afterCompaction = func(replaced bool, err error) { ends <- compactionEnd{replaced, err} }
	}
}

func TestAQuietStoreIsCompactedInTheBackground(t *testing.T) {
	ends := make(chan compactionEnd, 100)
	s := open(t, smallLimits, watched(ends))
	mostlyFree(t, s)
	for end := range ends {
		if !end.replaced && !errors.Is(end.err, errAbandoned) {
			t.Fatal(end.err)
		}
		// A copy may have been finished, or overtaken, while the store was
		// being filled.
		size, err := s.Size()
		must(t, err)
		if size.FileBytes < 1<<20 {
			break
		}
	}
	_, err := checkThread(s, "kept")
	must(t, err)
	must(t, s.Commit(modelCommit("kept", 2, 100)))
	_, err = checkThread(s, "kept")
	must(t, err)
}

// withoutCommitter opens a store whose committer's steps are taken by hand.
func withoutCommitter(t *testing.T, path string) *Store {
	t.Helper()
	s := New(path)
	smallLimits(s)
	must(t, s.open())
	s.compacted = make(chan error, 1)
	return s
}

func TestACompactionNeitherWaitsForABackupNorCutsItOff(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path, smallLimits, func(s *Store) { s.CompactAtExit = 0 })
	mostlyFree(t, s)
	must(t, s.Close())

	s = withoutCommitter(t, path)
	wantEqual(t, s.startCompaction(), false)
	copied := <-s.compacted
	must(t, copied)
	g, ended := backUp(s)
	wantEqual(t, s.finishCompaction(copied), true) // it is due again
	wantEqual(t, s.startCompaction(), true)        // but not before the backup ends
	close(g.open)
	must(t, <-ended)

	wantEqual(t, s.startCompaction(), false)
	wantEqual(t, s.finishCompaction(<-s.compacted), false)
	info, err := os.Stat(path)
	must(t, err)
	if info.Size() > 1<<20 {
		t.Errorf("%d bytes after the compaction", info.Size())
	}
	must(t, s.closeFile())
}

func TestAWriteAbandonsACompaction(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path, smallLimits)
	mostlyFree(t, s)
	s.CompactAtExit = 0
	must(t, s.Close())
	before, err := os.Stat(path)
	must(t, err)

	s = withoutCommitter(t, path)
	wantEqual(t, s.startCompaction(), false)
	s.abandonCompaction()
	wantEqual(t, s.finishCompaction(<-s.compacted), true)
	must(t, s.closeFile())

	after, err := os.Stat(path)
	must(t, err)
	wantEqual(t, os.SameFile(before, after), true)
	_, err = os.Stat(path + suffixCompact)
	wantEqual(t, os.IsNotExist(err), true)
}

func TestACompactionThatFailsLeavesTheFileAsItWas(t *testing.T) {
	for _, points := range []string{"store.compact.before=error", "store.compact.rename=error", "store.compact.after=error"} {
		t.Run(points, func(t *testing.T) {
			ends := make(chan compactionEnd, 100)
			path := testPath(t)
			s := openAt(t, path, smallLimits)
			mostlyFree(t, s)
			s.CompactAtExit = 0
			must(t, s.Close())
			arm(t, points)
			s = openAt(t, path, smallLimits, watched(ends))
			if end := <-ends; end.replaced || end.err == nil {
				t.Fatalf("ended with %+v", end)
			}
			_, err := checkThread(s, "kept")
			must(t, err)
			must(t, s.Commit(modelCommit("kept", 2, 0)))
			_, err = os.Stat(path + suffixCompact)
			wantEqual(t, os.IsNotExist(err), true)
		})
	}
}
