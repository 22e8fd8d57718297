package store

import (
	"bytes"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// MaxKeysRemoved bounds the keys of deleted threads that one transaction
// removes, so that no caller waits long behind it.
const MaxKeysRemoved = 5000

// present is the value of keys that only name something. bbolt tells nil apart
// from it within a transaction.
var present = []byte{}

// writer applies items within one transaction.
type writer struct {
	s      *Store
	tx     *bolt.Tx
	budget int  // keys of deleted threads that may still be removed
	left   bool // a deleted thread has keys left
}

func newWriter(s *Store, tx *bolt.Tx) *writer {
	return &writer{s: s, tx: tx, budget: MaxKeysRemoved}
}

// apply does an item's puts and deletes. A refusal goes into it.err before
// anything was written; an error means that the transaction is lost.
func (w *writer) apply(it *item) error {
	switch it.kind {
	case itemCommit:
		return w.commit(it)
	case itemBlock:
		return w.block(it)
	case itemDelete:
		return w.delete(it)
	case itemSweep:
		return w.sweep()
	case itemPut:
		return w.tx.Bucket(it.bucket).Put(it.key, it.value)
	default:
		return w.tx.Bucket(it.bucket).Delete(it.key)
	}
}

func (w *writer) commit(it *item) error {
	threads := w.tx.Bucket(bucketThreads)
	old := threads.Get(it.key)
	if sameRecord(old, it.value) {
		return nil // tried again after a failure that was none
	}
	h := w.admit(it, old)
	if it.err != nil {
		return nil
	}
	if err := w.journal(it, &h.counters); err != nil {
		return err
	}
	if err := w.operations(it, &h.counters); err != nil {
		return err
	}
	h.counters.put(it.value)
	if err := threads.Put(it.key, it.value); err != nil {
		return err
	}
	if it.skills != nil {
		if err := w.tx.Bucket(bucketSkills).Put(it.key, it.skills); err != nil {
			return err
		}
	}
	if wasLive := old != nil && h.status != thread.Ended; it.live != wasLive {
		if err := w.setLive(it); err != nil {
			return err
		}
	}
	blocks := w.tx.Bucket(bucketBlocks)
	if end := blockEnd(blocks.Get(it.key)); end != 0 && (it.blockEnd == 0 || it.blockEnd >= end) {
		return blocks.Delete(it.key)
	}
	return nil
}

func (w *writer) setLive(it *item) error {
	if it.live {
		return w.tx.Bucket(bucketLive).Put(it.key, present)
	}
	return w.tx.Bucket(bucketLive).Delete(it.key)
}

// admit checks a commit against the record that is stored and returns that
// record's header.
func (w *writer) admit(it *item, old []byte) header {
	if it.create {
		if old != nil || w.tx.Bucket(bucketTrash).Get(it.key) != nil {
			it.err = misuse("A thread with this id exists already.")
		}
		return header{}
	}
	if old == nil {
		it.err = errNotFound()
		return header{}
	}
	h, err := decodeHeader(old)
	switch {
	case err != nil:
		it.err = w.s.damaged("store.commit", err)
	case writtenBy(old, it.instance, it.revision):
		it.err = &fault.Error{Code: fault.StorageFailed, Op: "store.commit", Msg: "The database holds a later state of this thread; restart the daemon."}
	case it.latestSeq < h.latestSeq, it.firstSeq != 0 && it.firstSeq <= h.latestSeq:
		it.err = misuse("Sequence number %d or %d was told before; the latest is %d.", it.firstSeq, it.latestSeq, h.latestSeq)
	}
	return h
}

// operations puts and drops operations and keeps no more than the thread's
// limit, oldest first.
func (w *writer) operations(it *item, c *counters) error {
	if len(it.operations) == 0 && len(it.drops) == 0 {
		return nil
	}
	b := w.tx.Bucket(bucketOperations)
	for _, p := range it.operations {
		if b.Get(p.key) == nil {
			c.operations++
		}
		if err := b.Put(p.key, p.value); err != nil {
			return err
		}
	}
	for _, key := range it.drops {
		if b.Get(key) == nil {
			continue
		}
		c.operations -= min(1, c.operations)
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	for int(c.operations) > w.s.MaxOperations {
		key, err := w.oldestOperation(b, it)
		if err != nil || key == nil {
			return err
		}
		c.operations--
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// oldestOperation returns the key of the operation to forget next: completed,
// not the last one that was, admitted before all others.
func (w *writer) oldestOperation(b *bolt.Bucket, it *item) (oldest []byte, err error) {
	var first uint64
	prefix := appendPrefix(make([]byte, 0, maxIDBytes+1), string(it.key))
	c := b.Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = advance(c, k) {
		seq, completed, err := operationOrder(v)
		if err != nil {
			return nil, err
		}
		id := string(k[len(prefix):])
		if !completed || id == it.active || id == it.completed {
			continue
		}
		if oldest == nil || seq < first {
			oldest, first = k, seq
		}
	}
	return oldest, nil
}

func (w *writer) block(it *item) error {
	if w.tx.Bucket(bucketThreads).Get(it.key) == nil {
		it.err = errNotFound()
		return nil
	}
	b := w.tx.Bucket(bucketBlocks)
	if blockEnd(b.Get(it.key)) >= it.blockEnd {
		return nil
	}
	return b.Put(it.key, it.value)
}

// blockEnd reads a value of the blocks bucket; none is 0.
func blockEnd(v []byte) uint64 {
	if len(v) != seqBytes {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

// foundIn reports whether the item's change is in the database.
func (it *item) foundIn(tx *bolt.Tx) bool {
	switch it.kind {
	case itemCommit:
		v := tx.Bucket(bucketThreads).Get(it.key)
		return v != nil && writtenBy(v, it.instance, it.revision)
	case itemBlock:
		return blockEnd(tx.Bucket(bucketBlocks).Get(it.key)) >= it.blockEnd
	case itemDelete:
		return tx.Bucket(bucketThreads).Get(it.key) == nil
	case itemPut:
		return bytes.Equal(tx.Bucket(it.bucket).Get(it.key), it.value)
	case itemRemove:
		return tx.Bucket(it.bucket).Get(it.key) == nil
	default:
		return false // a sweep goes on with what is left
	}
}
