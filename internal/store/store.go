package store

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Defaults of the fields of Store.
const (
	DefaultMaxJournalEvents = 10_000
	DefaultMaxJournalBytes  = 16 << 20
	DefaultMaxStoreBytes    = 4 << 30
	DefaultLockTimeout      = 5 * time.Second // the instance lock is taken before, so nobody else should hold the file
	DefaultCompactAfter     = time.Minute     // without a write
	DefaultCompactFree      = 64 << 20        // free bytes that are worth a compaction
	DefaultCompactAtExit    = 256 << 20       // largest file that Close compacts: about a second
	fileMode                = os.FileMode(0o600)
)

// Store is the database. Set its fields before Open.
type Store struct {
	Log        zerolog.Logger
	Now        func() time.Time
	InstanceID string // of this run of the daemon; written into the file

	MaxJournalEvents int   // a thread; the oldest groups go first
	MaxJournalBytes  int64 // a thread, keys and values
	MaxOperations    int   // a thread
	MaxStoreBytes    int64 // address space that is mapped at once; the file may grow beyond
	LockTimeout      time.Duration
	CompactAfter     time.Duration // of quiet before a background compaction
	CompactFree      int64         // bytes; half of the file must be free, too
	CompactAtExit    int64         // bytes; a larger file is not compacted by Close

	path       string
	schema     uint32      // SchemaVersion, but for tests
	migrations []migration // likewise

	queue   *queue
	stopped chan struct{} // closed when the committer is done

	// mu guards opened: readers hold it while they enter, the committer holds it
	// while it reopens or replaces the file. Only the committer changes opened
	// after Open.
	mu     sync.RWMutex
	opened *opening // nil = closed, or could not be reopened

	unclean bool    // the previous run did not close the file
	damage  *Damage // what Open found
	sick    atomic.Pointer[error]
	full    atomic.Bool // the last change found no room

	misplaced atomic.Bool // the log was told that the file is not in its place

	toldFull time.Time // when the log was told so; the committer's
	tellRoom bool      // it was not told of room since; likewise

	compacting *compaction // nil = none runs; the committer's
	compacted  chan error
	// afterCompaction is called by the committer when a background compaction
	// has ended, for tests.
	afterCompaction func(replaced bool, err error)
}

// New returns a store for the file at a path. Nothing is touched before Open.
func New(path string) *Store {
	return &Store{
		Log:              zerolog.Nop(),
		Now:              time.Now,
		MaxJournalEvents: DefaultMaxJournalEvents,
		MaxJournalBytes:  DefaultMaxJournalBytes,
		MaxOperations:    thread.MaxOperations,
		MaxStoreBytes:    DefaultMaxStoreBytes,
		LockTimeout:      DefaultLockTimeout,
		CompactAfter:     DefaultCompactAfter,
		CompactFree:      DefaultCompactFree,
		CompactAtExit:    DefaultCompactAtExit,
		path:             path,
		schema:           SchemaVersion,
		migrations:       migrations,
	}
}

// Open opens the file, or makes it, and starts the committer. A damaged file is
// moved aside and a fresh one started, see Damage. The error is a *fault.Error
// with a sentence for the user: the file is of a newer version, in use, or
// cannot be opened.
func (s *Store) Open() error {
	if err := fault.Point(pointOpenBefore); err != nil {
		return openFault(err, "The database could not be opened.")
	}
	if err := s.open(); err != nil {
		return err
	}
	s.queue = newQueue()
	s.stopped = make(chan struct{})
	s.compacted = make(chan error, 1)
	go s.run()
	return nil
}

// Close commits what waits, marks the file as closed, compacts it if that is
// worth it and quick, and closes it. Later calls get STORAGE_FAILED.
func (s *Store) Close() error {
	if s.queue == nil {
		return nil
	}
	s.queue.close()
	<-s.stopped
	if s.opened == nil {
		return nil
	}
	err := fault.Point(pointCloseBefore)
	if err == nil {
		err = s.markClean()
	}
	compacted := err == nil && s.compactAtExit()

	s.mu.Lock()
	defer s.mu.Unlock()
	err = errors.Join(err, s.closeFile())
	if compacted {
		err = errors.Join(err, s.renameCompacted())
	}
	if err != nil {
		return fault.Wrap(fault.StorageFailed, "store.close", err, "The database could not be closed.")
	}
	return nil
}

func (s *Store) markClean() error {
	if s.sick.Load() != nil {
		return nil // a file that cannot be read is better not written; it counts as unclean
	}
	if err := s.writeMeta(metaClean, present); err != nil {
		return err
	}
	return fault.Point(pointCloseClean)
}

// Commit makes one change of one thread durable, or changes nothing. It returns
// when the change is on disk. Errors: STORAGE_FULL, STORAGE_FAILED, OVERLOADED,
// THREAD_NOT_FOUND; INTERNAL for a change that breaks a rule of the journal.
func (s *Store) Commit(c thread.Commit) error {
	it, err := prepareCommit(&c)
	if err != nil {
		return err
	}
	return s.do(it)
}

// ReserveBlock records that sequence numbers up to end may be used by deltas,
// in a key of its own. Errors as of Commit.
func (s *Store) ReserveBlock(threadID string, end uint64) error {
	if !validID(threadID) {
		return errNotFound()
	}
	it := newItem(itemBlock)
	it.blockEnd = end
	it.key = it.putID(threadID)
	it.value = it.append(func(e *encoder) { e.b = binary.BigEndian.AppendUint64(e.b, end) })
	it.size = len(it.arena.b)
	return s.do(it)
}

// WasUnclean reports whether the previous run ended without Close, so that
// processes of it may be left.
func (s *Store) WasUnclean() bool { return s.unclean }

// Damage tells about a damaged file that Open moved aside, as the log was told; nil =
// there was none.
func (s *Store) Damage() *Damage { return s.damage }

// Healthy returns an error once a part of the file could not be read; it stays
// until the daemon is restarted. It returns one while the file is not in its place.
// While there is no room worth speaking of it returns STORAGE_FULL, also where that is
// not to be seen, as with a quota: if the last change found none, or the file could not
// be reopened, it tries a small change itself.
func (s *Store) Healthy() error {
	if err := s.sick.Load(); err != nil {
		return *err
	}
	if free, known := freeSpace(s.path); known && free < minFreeBytes {
		return fault.Newf(fault.StorageFull, "The disk of the database has %d bytes left.", free)
	}
	closed, misplaced := s.standing()
	if misplaced != nil {
		return replacedFault(misplaced)
	}
	if !closed && !s.full.Load() {
		return nil
	}
	it := newItem(itemPut)
	it.bucket, it.key = bucketMeta, metaInstance
	it.value = it.append(func(e *encoder) { e.b = append(e.b, s.InstanceID...) })
	return s.do(it)
}

// standing tells whether the file is closed, and else whether it is in its place.
func (s *Store) standing() (closed bool, misplaced error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.opened == nil {
		return true, nil
	}
	return false, s.checkPlace()
}

// damaged records that a part of the file cannot be read and returns what its
// reader gets.
func (s *Store) damaged(op string, cause error) error {
	err := error(fault.Wrap(fault.StorageFailed, op, cause, "A part of the database cannot be read."))
	if s.sick.CompareAndSwap(nil, &err) {
		s.Log.Error().Err(cause).Str("op", op).Str("path", s.path).
			Msg("A part of the database cannot be read; stop the daemon, look at the disk, and restore a backup for what is missing.")
	}
	return err
}

// Size is the size of the database on disk.
type Size struct {
	FileBytes int64
	FreeBytes int64 // of FileBytes, free for reuse
}

// Size returns the size of the database. Error: STORAGE_FAILED.
func (s *Store) Size() (Size, error) {
	var usedBytes, freeBytes int64
	err := s.view("store.size", func(tx *bolt.Tx) error {
		stats := tx.DB().Stats()
		usedBytes = tx.Size()
		freeBytes = int64(stats.FreePageN+stats.PendingPageN) * int64(tx.DB().Info().PageSize)
		return nil
	})
	if err != nil {
		return Size{}, err
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return Size{}, fault.Wrap(fault.StorageFailed, "store.size", err, "The size of the database cannot be told.")
	}
	return Size{FileBytes: info.Size(), FreeBytes: freeBytes + max(0, info.Size()-usedBytes)}, nil
}

// UsedBytes returns how much of the database's file is in use. Error:
// STORAGE_FAILED.
func (s *Store) UsedBytes() (int64, error) {
	size, err := s.Size()
	return size.FileBytes - size.FreeBytes, err
}
