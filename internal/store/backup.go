package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Backup writes a consistent copy of the database to a new file while the store
// goes on serving, and returns its size. On an error there is no file. Errors:
// INVALID_INPUT when something is at the path or its folder cannot be written,
// STORAGE_FULL, OPERATION_CANCELLED with ctx, and STORAGE_FAILED, also when the
// database must be closed or reopened meanwhile: that does not wait for a backup.
func (s *Store) Backup(ctx context.Context, path string) (bytes int64, err error) {
	bytes, err = writeCopy(path, func(f io.Writer) (int64, error) { return s.copyTo(ctx, f) })
	if err != nil {
		return 0, backupFault(ctx, path, err)
	}
	return bytes, nil
}

// errLeft ends a backup of an opening that is about to be closed.
var errLeft = errors.New("the database is closed or reopened")

func backupFault(ctx context.Context, path string, err error) error {
	switch {
	case ctx.Err() != nil:
		return fault.Wrap(fault.OperationCancelled, "store.backup", err, "The backup was cancelled.")
	case errors.Is(err, errLeft):
		return fault.Wrap(fault.StorageFailed, "store.backup", err, "The backup was stopped, because the database had to be closed or reopened; make another one.")
	case errors.Is(err, os.ErrExist):
		return fault.Wrap(fault.InvalidInput, "store.backup", err, fmt.Sprintf("The file %s exists already; name a new one.", path))
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return fault.Wrap(fault.InvalidInput, "store.backup", err, fmt.Sprintf("The file %s cannot be made: its folder is missing or not writable.", path))
	case isNoSpace(err), fault.Is(err, fault.StorageFull):
		return fault.Wrap(fault.StorageFull, "store.backup", err, "The disk has no room for the backup.")
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return known // the database is closed or cannot be read
	}
	return fault.Wrap(fault.StorageFailed, "store.backup", err, "The backup could not be written.")
}

// copyTo writes what one read transaction sees into a file, until ctx is done or
// the database must be closed.
func (s *Store) copyTo(ctx context.Context, f io.Writer) (bytes int64, err error) {
	o, err := s.enter(long)
	if err != nil {
		return 0, err
	}
	defer o.leave(long)
	w := &stoppable{w: f, stop: func() error {
		if isClosed(o.left) {
			return errLeft
		}
		return ctx.Err()
	}}
	err = s.readIn(o, "store.backup", func(tx *bolt.Tx) (err error) {
		bytes, err = tx.WriteTo(w)
		return err
	})
	if w.err != nil {
		return 0, w.err // of which bbolt may have passed on the text only
	}
	return bytes, err
}

// writeCopy makes a new file, lets write fill it, and syncs it. On an error the
// file is removed, except when it was there before.
func writeCopy(path string, write func(io.Writer) (bytes int64, err error)) (bytes int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(path)
		}
	}()
	if err := fault.Point(pointBackupBefore); err != nil {
		return 0, err
	}
	if bytes, err = write(f); err != nil {
		return 0, err
	}
	if err := fault.Point(pointBackupSync); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	return bytes, syncDir(filepath.Dir(path))
}

// stoppable is a writer that fails once stop does. It keeps the error.
type stoppable struct {
	w    io.Writer
	stop func() error
	err  error
}

func (s *stoppable) Write(p []byte) (n int, err error) {
	if s.err = s.stop(); s.err != nil {
		return 0, s.err
	}
	n, s.err = s.w.Write(p)
	return n, s.err
}
