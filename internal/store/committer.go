package store

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// do hands an item to the committer, waits until it is on disk or failed, and
// frees it.
func (s *Store) do(it *item) error {
	if err := s.queue.push(it); err != nil {
		it.free()
		return err
	}
	err := <-it.done
	it.free()
	return err
}

// batchesBeforeSweep is how many batches may come before one step of removing
// deleted threads, when there is always a batch.
const batchesBeforeSweep = 8

// run is the committer: one transaction of all that waits, then the next.
func (s *Store) run() {
	defer close(s.stopped)
	debug.SetPanicOnFault(true)
	sweeping := s.trashLeft()
	quiet := time.NewTimer(s.CompactAfter)
	defer quiet.Stop()
	for unswept := 0; ; {
		batch := s.queue.take()
		switch {
		case len(batch) > 0:
			s.abandonCompaction()
			sweeping = s.commitBatch(batch) || sweeping
			if unswept++; sweeping && unswept >= batchesBeforeSweep {
				sweeping, unswept = s.sweep(), 0
			}
			quiet.Reset(s.CompactAfter)
			// Let the callers who were just answered queue their next change,
			// so that it shares the next transaction.
			runtime.Gosched()
		case s.queue.drained():
			s.abandonCompaction()
			if s.compacting != nil {
				s.finishCompaction(<-s.compacted)
			}
			return
		case sweeping:
			s.abandonCompaction()
			sweeping = s.sweep()
		default:
			select {
			case <-s.queue.wake:
			case <-quiet.C:
				if s.startCompaction() {
					quiet.Reset(s.CompactAfter)
				}
			case err := <-s.compacted:
				if s.finishCompaction(err) {
					quiet.Reset(s.CompactAfter)
				}
			}
		}
	}
}

// commitBatch makes a batch durable and answers its items. It reports whether a
// deleted thread left keys to sweep.
func (s *Store) commitBatch(batch []*item) (swept bool) {
	left, failed := s.update(batch)
	switch {
	case failed == nil:
		answerAll(batch, nil)
		return left
	case failed.at == committing && (!s.isFull(failed) || s.found(batch)):
		s.reconcile(batch, failed)
		return true // nobody knows whether a delete left something
	case failed.at == applying && len(batch) > 1 && !s.isFull(failed):
		return s.commitOneByOne(batch, failed)
	default:
		s.refuse(batch, failed)
		return false
	}
}

// commitOneByOne commits a batch in which one item spoils the transaction of
// all. If the database itself is lost on the way, the rest is answered at once:
// each attempt to open it may take as long as LockTimeout.
func (s *Store) commitOneByOne(batch []*item, cause error) (left bool) {
	s.Log.Warn().Err(cause).Int("items", len(batch)).Msg("A batch could not be applied; its changes are tried one by one.")
	for i := range batch {
		left = s.commitBatch(batch[i:i+1]) || left
		if s.opened == nil {
			s.refuse(batch[i+1:], fmt.Errorf("the database could not be reopened after %w", cause))
			return left
		}
	}
	return left
}

// refuse answers a batch of which nothing is on disk.
func (s *Store) refuse(batch []*item, cause error) {
	if errors.Is(cause, errDamaged) {
		_ = s.damaged("store.update", cause)
	}
	answerAll(batch, s.writeFault(cause))
}

// answerAll gives each item its own error, or else the batch's.
func answerAll(batch []*item, err error) {
	for _, it := range batch {
		answer := it.err
		if answer == nil {
			answer = err
		}
		it.done <- answer
	}
}

// A step of a transaction.
type step int

const (
	beginning  step = iota // nothing of the batch was looked at
	applying               // one item may be the cause
	committing             // in bbolt's Commit, so the change may be on disk
)

// updateError tells at which step a transaction failed.
type updateError struct {
	at  step
	err error
}

func (e *updateError) Error() string { return e.err.Error() }
func (e *updateError) Unwrap() error { return e.err }

// update applies a batch in one transaction and commits it.
func (s *Store) update(batch []*item) (left bool, failed *updateError) {
	at := beginning
	fail := func(err error) *updateError { return &updateError{at: at, err: err} }
	if s.opened == nil || s.opened.isStuck() {
		if err := s.reopen(); err != nil {
			return false, fail(err)
		}
	}
	if err := s.checkPlace(); err != nil {
		return false, fail(err)
	}
	if err := fault.Point(pointCommitBefore); err != nil {
		return false, fail(err)
	}
	tx, err := s.beginWrite()
	if err != nil {
		return false, fail(err)
	}
	defer func() {
		if p := recover(); p != nil {
			cause := fmt.Errorf("%w: panic while writing: %v", errDamaged, p)
			_ = s.damaged("store.update", cause)
			failed = fail(cause)
		}
		if failed != nil {
			s.opened.rollback(tx)
		}
	}()

	at = applying
	w := newWriter(s, tx)
	applied := 0
	for _, it := range batch {
		it.err = nil
		if err := fault.Point(pointUpdateBefore); err != nil {
			return false, fail(err)
		}
		if err := w.apply(it); err != nil {
			return false, fail(err)
		}
		if it.err == nil {
			applied++
		}
	}
	if applied == 0 {
		s.opened.rollback(tx)
		return false, nil
	}
	if err := fault.Point(pointUpdateAfter); err != nil {
		return false, fail(err)
	}
	at = committing
	if err := tx.Commit(); err != nil {
		return false, fail(err)
	}
	s.hasRoom()
	if err := fault.Point(pointCommitFail); err != nil {
		return false, fail(err)
	}
	if err := fault.Point(pointCommitAfter); err != nil {
		s.Log.Warn().Err(err).Msg("A failpoint after the commit has nothing left to fail.")
	}
	return w.left, nil
}

// beginWrite begins a write transaction, after a reopening if the mapping was
// lost.
func (s *Store) beginWrite() (*bolt.Tx, error) {
	tx, err := s.opened.begin(writing)
	if !errors.Is(err, berrors.ErrInvalidMapping) && !errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return tx, err
	}
	if err := s.reopen(); err != nil {
		return nil, err
	}
	return s.opened.begin(writing)
}

// closeFile closes the database, for those who hold mu or have nobody else.
func (s *Store) closeFile() error {
	o := s.opened
	s.opened = nil
	return o.close()
}

// reconcile answers a batch whose commit reported an error: bbolt may have
// written it nevertheless, so the reopened file decides.
func (s *Store) reconcile(batch []*item, cause error) {
	s.Log.Error().Err(cause).Int("items", len(batch)).Msg("A commit failed; the database is reopened to see what it holds.")
	if err := s.reopen(); err != nil {
		answerAll(batch, s.writeFault(errors.Join(cause, err)))
		return
	}
	failed := s.writeFault(cause)
	for _, it := range batch {
		if it.err != nil {
			it.done <- it.err
			continue
		}
		found := false
		err := s.view("store.reconcile", func(tx *bolt.Tx) error {
			found = it.foundIn(tx)
			return nil
		})
		switch {
		case err != nil:
			it.done <- err
		case found:
			it.done <- nil
		default:
			it.done <- failed
		}
	}
}

// found reports whether the database shows a change of a batch whose commit
// failed.
func (s *Store) found(batch []*item) (found bool) {
	err := s.view("store.found", func(tx *bolt.Tx) error {
		for _, it := range batch {
			found = found || it.err == nil && it.foundIn(tx)
		}
		return nil
	})
	return found || err != nil
}

// reopen closes the database and opens it again, and proves that it can be
// written. That write also makes durable what an unfinished sync had left in
// the operating system's hands. Afterwards s.opened is nil if it failed.
func (s *Store) reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened != nil {
		if err := s.closeFile(); err != nil {
			s.Log.Warn().Err(err).Msg("The database did not close well before it was reopened.")
		}
	}
	if err := fault.Point(pointReopenBefore); err != nil {
		return err
	}
	o, err := s.openChecked()
	if err != nil {
		return err
	}
	s.opened = o
	if err := s.writeMeta(metaInstance, []byte(s.InstanceID)); err != nil {
		_ = s.closeFile()
		return fmt.Errorf("writing after reopening: %w", err)
	}
	return nil
}

// writeMeta puts one value into the meta bucket, outside of the committer's
// batches.
func (s *Store) writeMeta(key, value []byte) error {
	return guarded(s.opened.update, func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(key, value)
	})
}

// writeFault turns the cause of a failed write into what its callers get.
func (s *Store) writeFault(cause error) error {
	if s.isFull(cause) {
		s.hasNoRoom(cause)
		return fault.Wrap(fault.StorageFull, "store.commit", cause, "The disk has no room; nothing was recorded.")
	}
	return fault.Wrap(fault.StorageFailed, "store.commit", cause, "The database could not be written; nothing was recorded.")
}

// fullEvery is how often the log is told that there is no room: each change is
// refused, and a few may still find some.
const fullEvery = time.Minute

func (s *Store) hasNoRoom(cause error) {
	s.full.Store(true)
	if now := s.Now(); s.toldFull.IsZero() || now.Sub(s.toldFull) >= fullEvery {
		s.toldFull, s.tellRoom = now, true
		s.Log.Error().Err(cause).Str("path", s.path).
			Msg("The disk has no room for the database. Changes are refused until there is; make room.")
	}
}

func (s *Store) hasRoom() {
	s.full.Store(false)
	if s.tellRoom {
		s.tellRoom = false
		s.Log.Info().Msg("A change of the database found room again.")
	}
}

// minFreeBytes is the space under which a failed write counts as a full disk:
// bbolt passes some causes on as text only.
const minFreeBytes = 1 << 20

func (s *Store) isFull(cause error) bool {
	if isNoSpace(cause) || fault.Is(cause, fault.StorageFull) {
		return true
	}
	if errors.Is(cause, fault.ErrInjected) {
		return false
	}
	free, known := freeSpace(s.path)
	return known && free < minFreeBytes
}
