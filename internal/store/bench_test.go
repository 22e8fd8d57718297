package store

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/thread"
)

const benchCallers = 16

// benchCommit is about what a resume or an end writes.
func benchCommit(id string, r uint64) thread.Commit {
	c := modelCommit(id, r, 40)
	c.Events, c.Operations, c.Skills = c.Events[:1], nil, nil
	return c
}

// BenchmarkCommit is the committer with 16 threads at once; its baseline is
// BenchmarkRawGroupCommit of the same bytes.
func BenchmarkCommit(b *testing.B) {
	s := open(b)
	share(b, func(caller int, next func() bool) error {
		id := fmt.Sprintf("thread-%02d", caller)
		for r := uint64(1); next(); r++ {
			if err := s.Commit(benchCommit(id, r)); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkRawGroupCommit puts the same keys and values with a plain group
// commit: whatever waits becomes one bbolt Update.
func BenchmarkRawGroupCommit(b *testing.B) {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, InitialMmapSize: DefaultMaxStoreBytes})
	must(b, err)
	defer db.Close()
	must(b, db.Update(func(tx *bolt.Tx) error {
		for _, name := range allBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	}))
	type change struct {
		record, event pair
		done          chan error
	}
	queue := make(chan *change, benchCallers)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		var batch []*change
		for first := range queue {
			batch = append(batch[:0], first)
			for more := true; more; {
				select {
				case c := <-queue:
					batch = append(batch, c)
				default:
					more = false
				}
			}
			err := db.Update(func(tx *bolt.Tx) error {
				for _, c := range batch {
					if err := tx.Bucket(bucketThreads).Put(c.record.key, c.record.value); err != nil {
						return err
					}
					if err := tx.Bucket(bucketJournal).Put(c.event.key, c.event.value); err != nil {
						return err
					}
				}
				return nil
			})
			for _, c := range batch {
				c.done <- err
			}
			runtime.Gosched()
		}
	}()
	share(b, func(caller int, next func() bool) error {
		id := fmt.Sprintf("thread-%02d", caller)
		done := make(chan error, 1)
		c := benchCommit(id, 1)
		it, err := prepareCommit(&c)
		if err != nil {
			return err
		}
		for r := uint64(1); next(); r++ {
			queue <- &change{pair{it.key, it.value}, pair{appendSeqKey(nil, id, r*eventsPerCommit), it.events[0].value}, done}
			if err := <-done; err != nil {
				return err
			}
		}
		return nil
	})
	close(queue)
	<-stopped
}

// share lets benchCallers goroutines do b.N rounds together.
func share(b *testing.B, work func(caller int, next func() bool) error) {
	b.ReportAllocs()
	var n atomic.Int64
	next := func() bool { return n.Add(1) <= int64(b.N) }
	var wg sync.WaitGroup
	b.ResetTimer()
	for caller := range benchCallers {
		wg.Go(func() {
			if err := work(caller, next); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkEvents reads a full journal of 10,000 events.
func BenchmarkEvents(b *testing.B) {
	s := open(b)
	for r := uint64(1); r*300 <= DefaultMaxJournalEvents; r++ {
		must(b, s.Commit(bigCommit("t", r, 300)))
	}
	b.ReportAllocs()
	for b.Loop() {
		page, err := s.Events("t", 0, 1<<40, DefaultMaxJournalEvents, 64<<20)
		must(b, err)
		if len(page.Events) < 9000 {
			b.Fatal(len(page.Events))
		}
	}
}

// BenchmarkLoad reads one thread with all its operations.
func BenchmarkLoad(b *testing.B) {
	s := open(b)
	for r := uint64(1); r <= thread.MaxOperations; r++ {
		must(b, s.Commit(modelCommit("t", r, 100)))
	}
	b.ReportAllocs()
	for b.Loop() {
		_, err := s.Load("t")
		must(b, err)
	}
}

// BenchmarkOpen opens a store of 10,000 threads that are not closed.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "core.db")
	s := openAt(b, path)
	fill(b, s, 10_000, 100)
	must(b, s.Close())
	for b.Loop() {
		s := New(path)
		must(b, s.Open())
		b.StopTimer()
		must(b, s.Close())
		b.StartTimer()
	}
}

// TestPreparingACommitAllocatesLittle guards the caller's half of the hot path;
// the committer's half is bbolt's own.
func TestPreparingACommitAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	c := benchCommit("thread-00", 7)
	allocs := testing.AllocsPerRun(200, func() {
		it, err := prepareCommit(&c)
		if err != nil {
			t.Fatal(err)
		}
		it.free()
	})
	if allocs > 1 {
		t.Fatalf("%v allocations", allocs)
	}
}
