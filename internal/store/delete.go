package store

import (
	"bytes"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Delete removes a thread and all that is stored of it. When it returns, the
// thread is gone for every reader and stays so. Of a thread with more than
// MaxKeysRemoved keys the rest is removed in the background, also after a
// restart. Errors: THREAD_NOT_FOUND, STORAGE_FULL, STORAGE_FAILED, OVERLOADED.
func (s *Store) Delete(threadID string) error {
	if !validID(threadID) {
		return errNotFound()
	}
	it := newItem(itemDelete)
	it.key = it.putID(threadID)
	return s.do(it)
}

// delete removes the record first, so that no half of a thread can be seen, and
// then as many keys as the transaction may.
func (w *writer) delete(it *item) error {
	if w.tx.Bucket(bucketThreads).Get(it.key) == nil {
		it.err = errNotFound()
		return nil
	}
	for _, name := range [][]byte{bucketThreads, bucketLive, bucketBlocks, bucketSkills} {
		if err := w.tx.Bucket(name).Delete(it.key); err != nil {
			return err
		}
	}
	done, err := w.removeRanges(it.key)
	if err != nil || done {
		return err
	}
	w.left = true
	return w.tx.Bucket(bucketTrash).Put(it.key, present)
}

// sweep goes on with threads that were deleted earlier.
func (w *writer) sweep() error {
	trash := w.tx.Bucket(bucketTrash)
	for {
		id, _ := trash.Cursor().First()
		if id == nil {
			return nil
		}
		id = bytes.Clone(id)
		done, err := w.removeRanges(id)
		if err != nil {
			return err
		}
		if !done {
			w.left = true
			return nil
		}
		if err := trash.Delete(id); err != nil {
			return err
		}
	}
}

// removeRanges removes a thread's keys from the range buckets and reports
// whether none is left.
func (w *writer) removeRanges(id []byte) (done bool, err error) {
	prefix := appendPrefix(make([]byte, 0, len(id)+1), string(id))
	for _, name := range rangeBuckets {
		b := w.tx.Bucket(name)
		keys, more := keysWithPrefix(b, prefix, w.budget)
		w.budget -= len(keys)
		for _, k := range keys {
			if err := b.Delete(k); err != nil {
				return false, err
			}
		}
		if more {
			return false, nil
		}
	}
	return true, nil
}

// keysWithPrefix returns up to limit keys. They are collected before any is
// deleted, since a delete moves the cursor.
func keysWithPrefix(b *bolt.Bucket, prefix []byte, limit int) (keys [][]byte, more bool) {
	c := b.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = advance(c, k) {
		if len(keys) == limit {
			return keys, true
		}
		keys = append(keys, k)
	}
	return keys, false
}

// sweep runs one background transaction of the committer and reports whether
// there is more to do. After a failure the rest waits for the next start.
func (s *Store) sweep() (more bool) {
	err := fault.Point(pointSweepBefore)
	if err == nil {
		it := newItem(itemSweep)
		defer it.free()
		more = s.commitBatch([]*item{it})
		err = <-it.done
	}
	if err != nil {
		s.Log.Warn().Err(err).Msg("Removing the rest of deleted threads failed; it goes on at the next start.")
		return false
	}
	return more
}

// trashLeft reports whether an earlier run left parts of deleted threads.
func (s *Store) trashLeft() bool {
	left := false
	err := s.view("store.sweep", func(tx *bolt.Tx) error {
		k, _ := tx.Bucket(bucketTrash).Cursor().First()
		left = k != nil
		return nil
	})
	return err == nil && left
}
