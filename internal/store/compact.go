package store

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// compactTxBytes is how much a compaction writes in one transaction.
const compactTxBytes = 1 << 20

// errAbandoned ends a compaction that a write or a backup has overtaken.
var errAbandoned = errors.New("something else came first")

// compaction is a copy of the database that is being made in the background.
type compaction struct {
	abandoned atomic.Bool
}

// worthCompacting reports whether more than half of the file, and more than
// CompactFree, is free.
func (s *Store) worthCompacting() (worth bool, fileBytes int64) {
	size, err := s.Size()
	if err != nil || s.opened.inPlace(s.path) != nil {
		return false, 0
	}
	return size.FreeBytes > s.CompactFree && size.FreeBytes > size.FileBytes/2, size.FileBytes
}

// startCompaction begins a copy if it is worth it. The copy reads in one long
// transaction, which is harmless as long as nobody writes; the first write
// abandons it. It reports whether a backup is in the way, so that the copy is
// due later.
func (s *Store) startCompaction() (later bool) {
	if s.opened == nil || s.compacting != nil {
		return false
	}
	if worth, _ := s.worthCompacting(); !worth {
		return false
	}
	if s.opened.has(long) {
		return true
	}
	c := &compaction{}
	s.compacting = c
	go func() { s.compacted <- s.writeCompacted(c) }() // the committer waits for it
	return false
}

// abandonCompaction makes a copy worthless, since a write comes. Its goroutine
// looks at the flag between keys and reports to finishCompaction.
func (s *Store) abandonCompaction() {
	if s.compacting != nil {
		s.compacting.abandoned.Store(true)
	}
}

// finishCompaction puts a finished copy in the file's place. It reports whether
// a write or a backup had overtaken the copy, so that another is due later.
func (s *Store) finishCompaction(err error) (abandoned bool) {
	if err == nil && s.compacting.abandoned.Load() {
		err = errAbandoned
	}
	if err == nil {
		err = s.replaceFile()
	}
	s.compacting = nil
	_ = os.Remove(s.path + suffixCompact)
	s.reportCompaction(err == nil, err)
	return errors.Is(err, errAbandoned)
}

func (s *Store) reportCompaction(replaced bool, err error) {
	switch {
	case replaced:
		s.Log.Info().Msg("The database was compacted.")
	case !errors.Is(err, errAbandoned):
		s.Log.Warn().Err(err).Msg("The database could not be compacted; it stays as it is.")
	}
	if s.afterCompaction != nil {
		s.afterCompaction(replaced, err)
	}
}

// replaceFile closes the database, renames the copy and opens it. If it cannot
// be opened, the next change tries again. A backup, which may take minutes, is
// neither waited for nor cut off for the sake of some space.
func (s *Store) replaceFile() error {
	if err := fault.Point(pointCompactRename); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened.has(long) {
		return errAbandoned
	}
	if err := s.opened.inPlace(s.path); err != nil {
		return err // what lies there now is not ours to replace
	}
	err := s.closeFile()
	if err == nil {
		err = s.renameCompacted()
	}
	o, openErr := s.openFile(s.path)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	s.opened = o
	return err
}

func (s *Store) renameCompacted() error {
	if err := os.Rename(s.path+suffixCompact, s.path); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	return fault.Point(pointCompactAfter)
}

// compactAtExit makes a copy if it is worth it and quick, and reports whether
// there is one to rename. The committer is gone, so nothing can overtake it.
func (s *Store) compactAtExit() bool {
	worth, size := s.worthCompacting()
	if !worth || size > s.CompactAtExit {
		return false
	}
	err := s.writeCompacted(&compaction{})
	if err == nil {
		err = fault.Point(pointCompactRename)
	}
	if err != nil {
		_ = os.Remove(s.path + suffixCompact)
		s.reportCompaction(false, err)
	}
	return err == nil
}

func (s *Store) writeCompacted(c *compaction) error {
	if err := fault.Point(pointCompactBefore); err != nil {
		return err
	}
	return s.view("store.compact", func(tx *bolt.Tx) error {
		return s.copyInto(s.path+suffixCompact, tx, c)
	})
}

// copyInto writes all keys of src into a new database and syncs it.
func (s *Store) copyInto(path string, src *bolt.Tx, c *compaction) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	options := s.options()
	options.InitialMmapSize = 0
	options.NoSync = true // the one sync at the end counts
	options.NoGrowSync = true
	dst, err := bolt.Open(path, fileMode, options)
	if err != nil {
		return err
	}
	err = copyBuckets(dst, src, c)
	if err == nil && c.abandoned.Load() {
		err = errAbandoned
	}
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

// copyBuckets copies the flat buckets of src in transactions of about
// compactTxBytes.
func copyBuckets(dst *bolt.DB, src *bolt.Tx, c *compaction) error {
	return src.ForEach(func(name []byte, b *bolt.Bucket) error {
		cursor := b.Cursor()
		k, v := cursor.First()
		for begun := false; !begun || k != nil; begun = true {
			err := dst.Update(func(tx *bolt.Tx) error {
				to, err := tx.CreateBucketIfNotExists(name)
				if err != nil {
					return err
				}
				to.FillPercent = 1 // keys come in order
				for written := 0; k != nil && written < compactTxBytes; {
					if c.abandoned.Load() {
						return errAbandoned
					}
					if err := to.Put(k, v); err != nil {
						return err
					}
					written += len(k) + len(v)
					from := k
					k, v = cursor.Next()
					if err := ascends(from, k); err != nil { // or the copy would have no end
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
