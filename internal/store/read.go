package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Bounds of one read transaction. An open one keeps the committer from growing
// the file's mapping and from reusing pages.
const (
	maxViewBytes = 256 << 10
	maxViewKeys  = 5000
)

// view is the one helper through which the store is read. A page that cannot be
// read (a fault in the mapped file, a panic of bbolt, a value that makes no
// sense) fails this read with STORAGE_FAILED and makes the store unhealthy.
func (s *Store) view(op string, fn func(*bolt.Tx) error) error {
	if err := fault.Point(pointReadBefore); err != nil {
		return fault.Wrap(fault.StorageFailed, op, err, "The database could not be read.")
	}
	o, err := s.enter(brief)
	if err != nil {
		return err
	}
	defer o.leave(brief)
	return s.readIn(o, op, fn)
}

// readIn is view for those who have entered.
func (s *Store) readIn(o *opening, op string, fn func(*bolt.Tx) error) error {
	err := guarded(o.view, fn)
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, errDamaged) {
		return s.damaged(op, err)
	}
	return fault.Wrap(fault.StorageFailed, op, err, "The database could not be read.")
}

// guarded runs a transaction and turns a panic, also that of a page which the
// operating system cannot give, into errDamaged.
func guarded(transact func(func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return transact(fn)
}

// advance moves a cursor from a key to the next. It panics in a tree that leads in a
// circle, which guarded makes errDamaged of: a walk in one would never end.
func advance(c *bolt.Cursor, from []byte) (k, v []byte) {
	k, v = c.Next()
	if err := ascends(from, k); err != nil {
		panic(err)
	}
	return k, v
}

// ascends returns errDamaged unless a key follows another one, or none does.
func ascends(from, k []byte) error {
	if k != nil && bytes.Compare(k, from) <= 0 {
		return fmt.Errorf("%w: the keys of a table do not ascend", errDamaged)
	}
	return nil
}

// Load reads a thread. Record.BlockEnd is the later of the record's own and
// that of ReserveBlock. Errors: THREAD_NOT_FOUND, STORAGE_FAILED.
func (s *Store) Load(threadID string) (thread.Loaded, error) {
	if !validID(threadID) {
		return thread.Loaded{}, errNotFound()
	}
	var l thread.Loaded
	err := s.view("store.load", func(tx *bolt.Tx) (err error) {
		id := []byte(threadID)
		v := tx.Bucket(bucketThreads).Get(id)
		if v == nil {
			return errNotFound()
		}
		if l.Record, err = decodeRecord(threadID, v); err != nil {
			return err
		}
		l.Record.BlockEnd = max(l.Record.BlockEnd, blockEnd(tx.Bucket(bucketBlocks).Get(id)))
		l.Operations, err = readAdmitted(tx, threadID)
		return err
	})
	if err != nil {
		return thread.Loaded{}, err
	}
	// A transaction of its own: skills may be 512 KiB, and they never change.
	err = s.view("store.load", func(tx *bolt.Tx) (err error) {
		if v := tx.Bucket(bucketSkills).Get([]byte(threadID)); v != nil {
			l.Skills, err = decodeSkills(v)
		}
		return err
	})
	return l, err
}

// readAdmitted reads what the thread remembers of its operations, oldest first.
func readAdmitted(tx *bolt.Tx, threadID string) ([]thread.Admitted, error) {
	var found []admitted
	var buf [maxIDBytes + 1]byte
	prefix := appendPrefix(buf[:0], threadID)
	c := tx.Bucket(bucketOperations).Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = advance(c, k) {
		a, err := decodeAdmitted(k[len(prefix):], v)
		if err != nil {
			return nil, err
		}
		found = append(found, a)
	}
	slices.SortStableFunc(found, func(a, b admitted) int { return cmp.Compare(a.seq, b.seq) })
	if len(found) == 0 {
		return nil, nil
	}
	ops := make([]thread.Admitted, len(found))
	for i := range found {
		ops[i] = found[i].Admitted
	}
	return ops, nil
}

// Operation reads an operation that the thread still remembers. Errors:
// THREAD_NOT_FOUND, STORAGE_FAILED.
func (s *Store) Operation(threadID, operationID string) (op thread.Operation, found bool, err error) {
	if !validID(threadID) {
		return op, false, errNotFound()
	}
	err = s.view("store.operation", func(tx *bolt.Tx) error {
		if _, err := readHeader(tx, threadID); err != nil {
			return err
		}
		v := tx.Bucket(bucketOperations).Get(appendOperationKey(nil, threadID, operationID))
		if v == nil {
			return nil
		}
		found = true
		op, err = decodeOperation(operationID, v)
		return err
	})
	if err != nil {
		return thread.Operation{}, false, err
	}
	return op, found, nil
}

// readHeader reads the header of a thread's record.
func readHeader(tx *bolt.Tx, threadID string) (header, error) {
	var buf [maxIDBytes]byte
	v := tx.Bucket(bucketThreads).Get(append(buf[:0], threadID...))
	if v == nil {
		return header{}, errNotFound()
	}
	return decodeHeader(v)
}

func errNotFound() error {
	return &fault.Error{Code: fault.ThreadNotFound, Op: "store", Msg: fault.ThreadNotFound.Info().Meaning}
}
