package store

import (
	"os"
	"runtime"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Changes went into a file that no longer had a name: they were answered as
// stored and gone with the process.
func TestAFileThatIsNotInItsPlaceTakesNoChange(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open database cannot be moved there")
	}
	path := testPath(t)
	s := openAt(t, path)
	must(t, s.Commit(modelCommit("t", 1, 10)))

	refuses := func(what string) {
		t.Helper()
		wantCode(t, s.Commit(modelCommit("t", 2, 10)), fault.StorageFailed)
		if err := s.Healthy(); !fault.Is(err, fault.StorageFailed) {
			t.Errorf("%s: healthy says %v", what, err)
		}
		if _, err := s.Load("t"); err != nil {
			t.Errorf("%s: what is stored cannot be read: %v", what, err)
		}
	}
	must(t, os.Rename(path, path+".away"))
	refuses("without the file")
	must(t, os.WriteFile(path, []byte("somebody else's"), fileMode))
	refuses("with another file in its place")

	must(t, os.Rename(path+".away", path))
	must(t, s.Commit(modelCommit("t", 2, 10)))
	must(t, s.Healthy())
	must(t, s.Close())
	s = openAt(t, path)
	l, err := s.Load("t")
	must(t, err)
	wantEqual(t, l.Record, modelCommit("t", 2, 10).Record)
}

// A compaction put its copy in the place of a backup that was restored under the
// running daemon.
func TestACompactionReplacesNoFileButItsOwn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open database cannot be moved there")
	}
	path := testPath(t)
	s := openAt(t, path, func(s *Store) { s.CompactFree = 0 })
	for r := uint64(1); r <= 40; r++ {
		must(t, s.Commit(modelCommit("t", r, 100_000)))
	}
	must(t, s.Delete("t"))
	must(t, os.WriteFile(path+".restored", []byte("a backup"), fileMode))
	must(t, os.Rename(path+".restored", path))
	must(t, s.Close())
	found, err := os.ReadFile(path)
	must(t, err)
	wantEqual(t, string(found), "a backup")
}
