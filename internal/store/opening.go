package store

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	bolt "go.etcd.io/bbolt"
)

// An opening is the database's file from one opening to the next. All
// transactions of a running store begin and end through it, because a page that
// cannot be read while one begins leaves a lock of bbolt's held: the opening is
// then stuck, and whoever would wait for that lock gets an error instead.
type opening struct {
	db   *bolt.DB
	file *os.File // db's own

	beginning sync.Mutex    // held while a transaction begins
	stuck     chan struct{} // closed when one of bbolt's locks is held for ever
	stick     func()        // closes stuck

	mu    sync.Mutex
	users [uses]int
	left  chan struct{} // closed when it is about to be closed: long uses end
	idle  chan struct{} // closed when it is left and has no users
}

// A use says how long somebody needs an opening.
type use int

const (
	brief use = iota // a read, which whoever closes waits for
	long             // a backup, which ends early when the opening is left
	uses
)

func newOpening(db *bolt.DB, file *os.File) *opening {
	o := &opening{db: db, file: file, stuck: make(chan struct{}), left: make(chan struct{}), idle: make(chan struct{})}
	o.stick = sync.OnceFunc(func() { close(o.stuck) })
	return o
}

// enter returns the opening that is in use. It stays open until leave.
func (s *Store) enter(u use) (*opening, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o := s.opened
	if o == nil {
		return nil, errClosed()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users[u]++
	return o, nil
}

func (o *opening) leave(u use) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users[u]--
	if isClosed(o.left) && o.users == [uses]int{} {
		close(o.idle)
	}
}

// has reports whether somebody uses the opening so.
func (o *opening) has(u use) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.users[u] > 0
}

func (o *opening) isStuck() bool { return isClosed(o.stuck) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// What a transaction is for, as bbolt wants it said.
const (
	reading = false
	writing = true
)

// begin begins a transaction. bbolt lets one begin at a time too, so the lock
// around it costs nothing.
func (o *opening) begin(writable bool) (tx *bolt.Tx, err error) {
	o.beginning.Lock()
	defer o.beginning.Unlock()
	if o.isStuck() {
		return nil, fmt.Errorf("%w: no transaction can begin", errDamaged)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			o.stick()
			tx, err = nil, fmt.Errorf("%w: a transaction could not begin: %v", errDamaged, p)
		}
	}()
	return o.db.Begin(writable)
}

// rollback ends a transaction in whatever state a failure left it. It reads
// nothing of the file, as the end of bolt's Update would: that could fail again
// and leave the writer's lock held. If the opening is stuck, the transaction
// stays: its end would wait for a lock that nobody gives back.
func (o *opening) rollback(tx *bolt.Tx) {
	if o.isStuck() {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			o.stick()
		}
	}()
	_ = tx.Rollback()
}

// view runs fn in a read transaction.
func (o *opening) view(fn func(*bolt.Tx) error) error {
	tx, err := o.begin(reading)
	if err != nil {
		return err
	}
	defer o.rollback(tx)
	return fn(tx)
}

// update runs fn in a write transaction and commits it.
func (o *opening) update(fn func(*bolt.Tx) error) error {
	tx, err := o.begin(writing)
	if err != nil {
		return err
	}
	defer o.rollback(tx) // after the commit it does nothing
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// close ends long uses, waits until nobody uses the opening, and closes the
// database. One that is stuck cannot be closed, and who uses it is not waited
// for: only its file is closed, and its mapping stays. Nobody may enter any
// more.
func (o *opening) close() error {
	o.mu.Lock()
	close(o.left)
	if o.users == [uses]int{} {
		close(o.idle)
	}
	o.mu.Unlock()
	select {
	case <-o.idle:
	case <-o.stuck:
	}
	if o.isStuck() {
		return release(o.file)
	}
	return o.db.Close()
}
