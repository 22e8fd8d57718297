package store

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// losePages takes away a file's content under an open store.
func losePages(t *testing.T, path string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a mapped file cannot be cut everywhere")
	}
	must(t, os.Truncate(path, 0))
}

func TestWhoeverReadsALostFileFirstHoldsUpNobody(t *testing.T) {
	reads := map[string]func(s *Store, dir string) error{
		"load":   func(s *Store, _ string) error { _, err := s.Load("t"); return err },
		"size":   func(s *Store, _ string) error { _, err := s.Size(); return err },
		"used":   func(s *Store, _ string) error { _, err := s.UsedBytes(); return err },
		"backup": func(s *Store, dir string) error { _, err := s.Backup(t.Context(), filepath.Join(dir, "b")); return err },
	}
	for first, read := range reads {
		t.Run(first, func(t *testing.T) {
			path := testPath(t)
			s := openAt(t, path)
			must(t, s.Commit(modelCommit("t", 1, 0)))
			losePages(t, path)
			wantCode(t, read(s, filepath.Dir(path)), fault.StorageFailed)
			wantCode(t, s.Healthy(), fault.StorageFailed)
			for _, read := range reads {
				wantCode(t, read(s, filepath.Dir(path)), fault.StorageFailed)
			}
			wantCode(t, s.Commit(modelCommit("t", 2, 0)), fault.StorageFailed)
			must(t, s.Close())
		})
	}
}

func TestAReadUnderWayWhenTheFileIsLostHoldsUpNobody(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	must(t, s.Commit(modelCommit("t", 1, 0)))
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.view("test", func(*bolt.Tx) error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	losePages(t, path)
	_, err := s.Size()
	wantCode(t, err, fault.StorageFailed)
	wantCode(t, s.Commit(modelCommit("t", 2, 0)), fault.StorageFailed)
	must(t, s.Close())
	close(end)
	must(t, <-ended)
}

func TestAStuckOpeningIsReplacedByTheNextCommit(t *testing.T) {
	s := open(t)
	must(t, s.Commit(modelCommit("t", 1, 0)))
	s.opened.stick()
	_, err := s.Load("t")
	wantCode(t, err, fault.StorageFailed)
	must(t, s.Commit(modelCommit("t", 2, 0)))
	_, err = checkThread(s, "t")
	must(t, err)
}

// A quiet store looks at its size to see whether a compaction is worth it.
func TestAQuietStoreWhoseFileIsLostStaysUp(t *testing.T) {
	path := testPath(t)
	s := New(path)
	must(t, s.open())
	losePages(t, path)
	s.startCompaction()
	if s.compacting != nil {
		t.Fatal("a compaction began")
	}
	wantCode(t, s.Healthy(), fault.StorageFailed)
	must(t, s.closeFile())
}
