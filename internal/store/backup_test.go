package store

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestABackupIsConsistentWhileThreadsGoOn(t *testing.T) {
	s := open(t)
	must(t, s.Commit(modelCommit("t", 1, 100)))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for r := uint64(2); ; r++ {
			if err := s.Commit(modelCommit("t", r, 100)); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	dir := t.TempDir()
	for _, name := range []string{"1", "2", "3"} {
		path := filepath.Join(dir, name)
		n, err := s.Backup(t.Context(), path)
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		wantEqual(t, info.Size(), n)
		if runtime.GOOS != "windows" {
			wantEqual(t, info.Mode().Perm(), os.FileMode(0o600))
		}
	}
	close(stop)
	wg.Wait()
	for _, name := range []string{"1", "2", "3"} {
		_, err := checkThread(openAt(t, filepath.Join(dir, name)), "t")
		must(t, err)
	}
}

func TestABackupThatCannotBeMadeLeavesNoFile(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := map[string]struct {
		ctx    context.Context
		points string
		path   string
		code   fault.Code
	}{
		"cancelled":      {cancelled, "", "a", fault.OperationCancelled},
		"not written":    {t.Context(), "store.backup.before=error", "a", fault.StorageFailed},
		"not synced":     {t.Context(), "store.backup.sync=error", "a", fault.StorageFailed},
		"no room":        {t.Context(), "store.backup.sync=full", "a", fault.StorageFull},
		"missing folder": {t.Context(), "", "missing/a", fault.InvalidInput},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			arm(t, test.points)
			_, err := s.Backup(test.ctx, filepath.Join(dir, test.path))
			wantCode(t, err, test.code)
			entries, err := os.ReadDir(dir)
			must(t, err)
			wantEqual(t, len(entries), 0)
		})
	}
}

func TestABackupNeverReplacesAFile(t *testing.T) {
	s := open(t)
	path := filepath.Join(t.TempDir(), "kept")
	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err := s.Backup(t.Context(), path)
	wantCode(t, err, fault.InvalidInput)
	content, err := os.ReadFile(path)
	must(t, err)
	wantEqual(t, string(content), "mine")
}

// A gate is the file of a backup that stands still at its first piece.
type gate struct {
	begun, open chan struct{}
	once        sync.Once
}

func (g *gate) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.begun) })
	<-g.open
	return len(p), nil
}

// backUp begins a backup, waits until it has begun, and returns its end.
func backUp(s *Store) (*gate, chan error) {
	g, ended := &gate{begun: make(chan struct{}), open: make(chan struct{})}, make(chan error, 1)
	go func() {
		_, err := s.copyTo(context.Background(), g)
		ended <- err
	}()
	<-g.begun
	return g, ended
}

func TestABackupStopsWhenTheDatabaseMustBeReopenedOrClosed(t *testing.T) {
	leave := map[string]func(t *testing.T, s *Store) error{
		"reopened": func(t *testing.T, s *Store) error {
			arm(t, "store.commit.fail=error")
			return s.Commit(modelCommit("t", 2, 0))
		},
		"closed": func(_ *testing.T, s *Store) error { return s.Close() },
	}
	for name, leave := range leave {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			must(t, s.Commit(modelCommit("t", 1, 0)))
			left := s.opened.left
			g, ended := backUp(s)
			done := make(chan error, 1)
			go func() { done <- leave(t, s) }()
			<-left
			close(g.open)
			err := backupFault(t.Context(), "b", <-ended)
			wantCode(t, err, fault.StorageFailed)
			if msg := fault.From(err).Message(); !strings.Contains(msg, "make another one") {
				t.Errorf("message %q", msg)
			}
			must(t, <-done)
		})
	}
}
