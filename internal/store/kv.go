package store

import (
	"bytes"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// LedgerName names a ledger of the database.
type LedgerName string

// The ledgers.
const (
	Processes LedgerName = "processes" // child processes by runtime id
	Origins   LedgerName = "origins"   // approvals by origin
)

// MaxLedgerValue is the largest value of a ledger in bytes.
const MaxLedgerValue = 64 << 10

// Ledger is a small table of the database: opaque values by id. All methods are
// safe for concurrent use; errors are STORAGE_FULL, STORAGE_FAILED, OVERLOADED,
// and INTERNAL for an id or value that breaks a limit.
type Ledger struct {
	s      *Store
	bucket []byte
}

// KV returns a ledger.
func (s *Store) KV(name LedgerName) *Ledger {
	return &Ledger{s: s, bucket: []byte(name)}
}

// Put makes a value durable under an id, in place of an older one.
func (l *Ledger) Put(id string, value []byte) error {
	if !l.known() || !validID(id) || len(value) > MaxLedgerValue {
		return &fault.Error{Code: fault.Internal, Op: "store.ledger", Msg: "The ledger does not take this id or value."}
	}
	return l.s.do(l.item(itemPut, id, value))
}

// Delete durably removes an id; one that is not there is no error.
func (l *Ledger) Delete(id string) error {
	if !l.known() || !validID(id) {
		return nil
	}
	return l.s.do(l.item(itemRemove, id, nil))
}

func (l *Ledger) known() bool {
	return bytes.Equal(l.bucket, bucketProcesses) || bytes.Equal(l.bucket, bucketOrigins)
}

func (l *Ledger) item(kind itemKind, id string, value []byte) *item {
	it := newItem(kind)
	it.bucket = l.bucket
	it.key = it.putID(id)
	it.value = it.append(func(e *encoder) { e.b = append(e.b, value...) })
	it.size = len(it.arena.b)
	return it
}

// All returns a copy of the ledger.
func (l *Ledger) All() (map[string][]byte, error) {
	all := map[string][]byte{}
	if !l.known() {
		return all, nil
	}
	err := l.s.scan("store.ledger", l.bucket, "", func(_ *bolt.Tx, id, v []byte) (copied int, more bool, err error) {
		all[string(id)] = append([]byte{}, v...)
		return len(id) + len(v), true, nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
