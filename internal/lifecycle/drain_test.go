package lifecycle

import (
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestAShutdownEndsThreadsThatNobodyHasLoaded(t *testing.T) {
	const managed = 3 * sweepParallel / 2 // more than one chunk
	var before string
	earlier := func(m *memStore) { // one that an earlier daemon left
		before = "tbefore"
		must := m.Commit(thread.Commit{Create: true, Record: thread.Record{ID: before, Instance: "then", Status: thread.Running,
			Active: &thread.ActiveOperation{ID: "op"}, Workspace: thread.Workspace{Managed: true, Instance: "then"}}})
		if must != nil {
			t.Fatal(must)
		}
	}
	startOn(t, earlier, nil, func(b *bench) {
		var ids []string
		for range managed {
			ids = append(ids, b.create())
		}
		kept := b.createCustom()
		b.Drain(b.Context())
		for _, id := range append(ids, before) {
			if r := b.store.record(id); r.Status != thread.Ended || r.Active != nil {
				t.Errorf("thread %s is %s", id, r.Status)
			}
		}
		if r := b.store.record(kept); r.Status != thread.Idle {
			t.Errorf("a thread that outlives the daemon is %s", r.Status)
		}
	})
}

func TestAShutdownOnAFullDiskGivesUpOnThreadsThatNobodyHasLoaded(t *testing.T) {
	start(t, func(b *bench) {
		for range 3 * sweepParallel {
			b.create()
		}
		b.store.setFail(errDisk)
		began := time.Now()
		b.Drain(b.Context())
		if took := time.Since(began); took > unloadedLimit {
			t.Errorf("it took %v", took)
		}
		if n := b.store.loadCount(); n > sweepParallel {
			t.Errorf("it loaded %d threads, although the first could not be ended", n)
		}
	})
}
