package store

import (
	"bytes"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// keysOf counts all that is stored of a thread.
func keysOf(t testing.TB, s *Store, id string) (n int) {
	t.Helper()
	must(t, s.view("test", func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
			return b.ForEach(func(k, _ []byte) error {
				if bytes.Equal(k, []byte(id)) || bytes.HasPrefix(k, append([]byte(id), 0)) {
					n++
				}
				return nil
			})
		})
	}))
	return n
}

func TestADeletedThreadLeavesNothing(t *testing.T) {
	s := open(t)
	for r := uint64(1); r <= 3; r++ {
		must(t, s.Commit(modelCommit("t", r, 10)))
		must(t, s.Commit(modelCommit("t2", r, 10)))
	}
	must(t, s.ReserveBlock("t", 50))
	must(t, s.Delete("t"))
	wantEqual(t, keysOf(t, s, "t"), 0)
	r, err := checkThread(s, "t2")
	must(t, err)
	wantEqual(t, r, uint64(3))
	wantCode(t, s.Delete("t"), fault.ThreadNotFound)
	must(t, s.Commit(modelCommit("t", 1, 0)))
}

// bigThread makes a thread with more keys than one transaction removes.
func bigThread(t testing.TB, s *Store, id string) {
	t.Helper()
	for r := uint64(1); r <= 2*MaxKeysRemoved/300+2; r++ {
		must(t, s.Commit(bigCommit(id, r, 300)))
	}
}

func TestALargeThreadIsRemovedInSeveralTransactions(t *testing.T) {
	path := testPath(t)
	// The sweep stops at its first step, as if the daemon had gone.
	arm(t, "store.sweep.before=error")
	s := openAt(t, path, func(s *Store) { s.MaxJournalEvents = 1 << 20 })
	bigThread(t, s, "t")
	must(t, s.Delete("t"))
	_, err := s.Load("t")
	wantCode(t, err, fault.ThreadNotFound)
	_, err = s.Events("t", 0, 1<<40, 0, 0)
	wantCode(t, err, fault.ThreadNotFound)
	ids, err := s.Live("", 10)
	must(t, err)
	wantEqual(t, len(ids), 0)
	wantCode(t, s.Commit(bigCommit("t", 1, 1)), fault.Internal) // the id is not free yet
	must(t, s.Close())

	s = openAt(t, path)
	drainSweep(t, s)
	wantEqual(t, keysOf(t, s, "t"), 0)
	must(t, s.Commit(bigCommit("t", 1, 1)))
}

// drainSweep waits until the committer has swept all: each ledger write waits
// for the step before it.
func drainSweep(t testing.TB, s *Store) {
	t.Helper()
	for range 100 {
		if !s.trashLeft() {
			return
		}
		must(t, s.KV(Origins).Put("x", nil))
	}
	t.Fatal("the sweep does not end")
}

func TestTheSweepGoesOnBesideOtherChanges(t *testing.T) {
	s := open(t, func(s *Store) { s.MaxJournalEvents = 1 << 20 })
	bigThread(t, s, "t")
	bigThread(t, s, "u")
	must(t, s.Delete("t"))
	must(t, s.Delete("u"))
	must(t, s.Commit(modelCommit("v", 1, 0)))
	drainSweep(t, s)
	wantEqual(t, keysOf(t, s, "t")+keysOf(t, s, "u"), 0)
	_, err := checkThread(s, "v")
	must(t, err)
}
