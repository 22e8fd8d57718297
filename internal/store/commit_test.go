package store

import (
	"fmt"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestEveryKindOfChangeIsThereAfterReopening(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	reopen := func() {
		t.Helper()
		must(t, s.Close())
		s = openAt(t, path)
		if s.WasUnclean() {
			t.Fatal("a closed store counts as unclean")
		}
	}
	load := func() thread.Loaded {
		t.Helper()
		l, err := s.Load("t")
		must(t, err)
		return l
	}

	must(t, s.Commit(modelCommit("t", 1, 10)))
	reopen()
	wantEqual(t, load().Record, modelCommit("t", 1, 10).Record)
	wantEqual(t, load().Skills, modelCommit("t", 1, 10).Skills)

	admission := modelCommit("t", 2, 10)
	admission.Record.Status, admission.Record.BlockEnd = thread.Running, 100
	admission.Record.Active = &thread.ActiveOperation{ID: "op-2", Kind: thread.User, StartedAt: testTime}
	must(t, s.Commit(admission))
	reopen()
	wantEqual(t, load().Record, admission.Record)
	op, found, err := s.Operation("t", "op-2")
	must(t, err)
	wantEqual(t, found, true)
	wantEqual(t, op, admission.Operations[0])

	must(t, s.ReserveBlock("t", 200))
	must(t, s.ReserveBlock("t", 150)) // an earlier one does not take it back
	reopen()
	wantEqual(t, load().Record.BlockEnd, uint64(200))

	must(t, s.Commit(modelCommit("t", 3, 10)))
	reopen()
	wantEqual(t, load().Record.BlockEnd, uint64(0))
	page, err := s.Events("t", 0, 9, 0, 0)
	must(t, err)
	wantEqual(t, page.Events[3:6], modelCommit("t", 2, 10).Events)

	end := modelCommit("t", 4, 0)
	end.Record.Status = thread.Ended
	end.Drop = []string{"op-1", "never-there"}
	must(t, s.Commit(end))
	reopen()
	ids, err := s.Live("", 10)
	must(t, err)
	wantEqual(t, len(ids), 0)
	if _, found, _ := s.Operation("t", "op-1"); found {
		t.Fatal("a dropped operation is there")
	}

	must(t, s.Commit(modelCommit("t", 5, 0)))
	reopen()
	ids, err = s.Live("", 10)
	must(t, err)
	wantEqual(t, ids, []string{"t"})

	must(t, s.Delete("t"))
	reopen()
	_, err = s.Load("t")
	wantCode(t, err, fault.ThreadNotFound)
}

func TestACommitThatBreaksARuleIsRefusedAndChangesNothing(t *testing.T) {
	s := open(t)
	must(t, s.Commit(modelCommit("t", 1, 0)))
	must(t, s.Commit(modelCommit("t", 2, 0)))
	tests := map[string]struct {
		change func(*thread.Commit)
		code   fault.Code
	}{
		"created twice":             {func(c *thread.Commit) { c.Create = true }, fault.Internal},
		"unknown thread":            {func(c *thread.Commit) { c.Record.ID = "u" }, fault.ThreadNotFound},
		"no id":                     {func(c *thread.Commit) { c.Record.ID = "" }, fault.Internal},
		"zero byte in the id":       {func(c *thread.Commit) { c.Record.ID = "t\x00" }, fault.Internal},
		"revision goes back":        {func(c *thread.Commit) { c.Record.Revision = 2 }, fault.StorageFailed},
		"sequence number again":     {func(c *thread.Commit) { c.Events[0].Seq = 6 }, fault.Internal},
		"latest sequence goes back": {func(c *thread.Commit) { c.Events, c.Record.LatestSeq = nil, 5 }, fault.Internal},
		"events out of order":       {func(c *thread.Commit) { c.Events[2].Seq = 7 }, fault.Internal},
		"event after the latest":    {func(c *thread.Commit) { c.Events[2].Seq = 10 }, fault.Internal},
		"operation without an id":   {func(c *thread.Commit) { c.Operations[0].ID = "" }, fault.Internal},
		"skills later":              {func(c *thread.Commit) { c.Skills = &thread.Skills{} }, fault.Internal},
		"far too large":             {func(c *thread.Commit) { c.Events[0].Text = string(make([]byte, maxItemBytes+1)) }, fault.Internal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := modelCommit("t", 3, 0)
			test.change(&c)
			wantCode(t, s.Commit(c), test.code)
			r, err := checkThread(s, "t")
			must(t, err)
			wantEqual(t, r, uint64(2))
		})
	}
	wantCode(t, s.ReserveBlock("u", 5), fault.ThreadNotFound)
	wantCode(t, s.Delete("u"), fault.ThreadNotFound)
	_, err := s.Events("u", 0, 10, 0, 0)
	wantCode(t, err, fault.ThreadNotFound)
	_, _, err = s.Operation("u", "o")
	wantCode(t, err, fault.ThreadNotFound)
	// Another instance begins to count where it likes.
	c := modelCommit("t", 3, 0)
	c.Record.Instance = "instance-2"
	must(t, s.Commit(c))
}

func TestDeltasAreNotStored(t *testing.T) {
	s := open(t)
	c := modelCommit("t", 1, 0)
	c.Record.LatestSeq = 5
	c.Events = append(c.Events, thread.Event{Kind: thread.EventAssistantDelta, Seq: 4, Text: "x"}, thread.Event{Kind: thread.EventEnded, Seq: 5})
	must(t, s.Commit(c))
	page, err := s.Events("t", 2, 9, 0, 0)
	must(t, err)
	wantEqual(t, []uint64{page.Events[0].Seq, page.Events[1].Seq}, []uint64{3, 5})
}

func TestOperationsAreForgottenOldestFirst(t *testing.T) {
	s := open(t, func(s *Store) { s.MaxOperations = 4 })
	must(t, s.Commit(modelCommit("t", 1, 0)))
	for r := uint64(2); r <= 9; r++ {
		c := modelCommit("t", r, 0)
		if r == 2 { // stays active all the time
			c.Operations[0].Completed = nil
		}
		c.Record.Active = &thread.ActiveOperation{ID: "op-2", Kind: thread.User}
		c.Record.LastCompleted = &thread.CompletedOperation{ID: "op-1"}
		must(t, s.Commit(c))
	}
	l, err := s.Load("t")
	must(t, err)
	var ids []string
	for _, op := range l.Operations {
		ids = append(ids, op.ID)
	}
	wantEqual(t, ids, []string{"op-1", "op-2", "op-8", "op-9"})
}

func TestCallersShareTransactionsAndEachIsAnswered(t *testing.T) {
	s := open(t)
	var wg sync.WaitGroup
	const callers, commits = 16, 20
	for i := range callers {
		wg.Go(func() {
			id := fmt.Sprintf("t-%02d", i)
			for r := uint64(1); r <= commits; r++ {
				if err := s.Commit(modelCommit(id, r, 50)); err != nil {
					t.Errorf("%s revision %d: %v", id, r, err)
					return
				}
				if got, err := checkThread(s, id); err != nil || got != r {
					t.Errorf("%s revision %d read as %d: %v", id, r, got, err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		ledger := s.KV(Processes)
		for i := range 50 {
			if err := ledger.Put(fmt.Sprint(i), []byte("x")); err != nil {
				t.Error(err)
			}
			if _, err := s.List(thread.ListQuery{}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}

func TestAFullQueueAnswersOverloaded(t *testing.T) {
	q := newQueue()
	for range MaxQueuedChanges {
		must(t, q.push(&item{}))
	}
	wantCode(t, q.push(&item{}), fault.Overloaded)

	q = newQueue()
	must(t, q.push(&item{size: MaxQueuedBytes + 1})) // an empty queue takes any size
	wantCode(t, q.push(&item{size: 1}), fault.Overloaded)
	wantEqual(t, len(q.take()), 1)
	must(t, q.push(&item{size: 1}))
	q.close()
	wantCode(t, q.push(&item{}), fault.StorageFailed)
	wantEqual(t, q.drained(), false)
	q.take()
	wantEqual(t, q.drained(), true)
}

func TestACommitThatReportedAnErrorThoughItSucceededIsAcknowledged(t *testing.T) {
	s := open(t)
	must(t, s.Commit(modelCommit("t", 1, 0)))
	ledger := s.KV(Origins)
	changes := map[string]func() error{
		"commit": func() error { return s.Commit(modelCommit("t", 2, 0)) },
		"create": func() error { return s.Commit(modelCommit("u", 1, 0)) },
		"block":  func() error { return s.ReserveBlock("t", 999) },
		"put":    func() error { return ledger.Put("k", []byte("v")) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			arm(t, "store.commit.fail=error")
			must(t, change())
		})
	}
	t.Run("remove", func(t *testing.T) {
		arm(t, "store.commit.fail=error")
		must(t, ledger.Delete("k"))
	})
	t.Run("delete", func(t *testing.T) {
		arm(t, "store.commit.fail=error")
		must(t, s.Delete("u"))
	})
	r, err := checkThread(s, "t")
	must(t, err)
	wantEqual(t, r, uint64(2))
	must(t, s.Healthy())
}

func TestAFullDiskThatIsReportedAfterTheCommitWasWrittenIsNotBelieved(t *testing.T) {
	s := open(t)
	arm(t, "store.commit.fail=full")
	must(t, s.Commit(modelCommit("t", 1, 0)))
	_, err := checkThread(s, "t")
	must(t, err)
}

// The file cannot be reopened after the failed commit, so nobody can tell; the
// same change again is then no second one.
func TestACommitThatIsTriedAgainAfterAFailureThatWasNoneHappensOnce(t *testing.T) {
	s := open(t)
	must(t, s.Commit(modelCommit("t", 1, 0)))
	arm(t, "store.commit.fail=error;store.reopen.before=error")
	wantCode(t, s.Commit(modelCommit("t", 2, 0)), fault.StorageFailed)
	must(t, s.Commit(modelCommit("t", 2, 0)))
	must(t, s.Commit(modelCommit("t", 3, 0)))
	r, err := checkThread(s, "t")
	must(t, err)
	wantEqual(t, r, uint64(3))
	var h header
	must(t, s.view("test", func(tx *bolt.Tx) error {
		h, err = readHeader(tx, "t")
		return err
	}))
	wantEqual(t, h.events, uint32(9))
}

func TestAFailedCommitRecordsNothingAndTheNextOneWorks(t *testing.T) {
	tests := map[string]struct {
		points string
		code   fault.Code
	}{
		"transaction cannot begin":        {"store.commit.before=error", fault.StorageFailed},
		"no room at the beginning":        {"store.commit.before=full", fault.StorageFull},
		"item cannot be applied":          {"store.update.before=error", fault.StorageFailed},
		"no room for an item":             {"store.update.before=full", fault.StorageFull},
		"all applied, then an error":      {"store.update.after=error", fault.StorageFailed},
		"panic while applying":            {"store.update.before=panic", fault.StorageFailed},
		"failed and cannot be reopened":   {"store.commit.fail=error;store.reopen.before=error", fault.StorageFailed},
		"failed and cannot be read again": {"store.commit.fail=error;store.read.before=error", fault.StorageFailed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			must(t, s.Commit(modelCommit("t", 1, 0)))
			arm(t, test.points)
			wantCode(t, s.Commit(modelCommit("u", 1, 0)), test.code)
			must(t, s.Commit(modelCommit("t", 2, 0)))
			r, err := checkThread(s, "t")
			must(t, err)
			wantEqual(t, r, uint64(2))
		})
	}
}

func TestOneItemThatCannotBeAppliedDoesNotSpoilItsBatch(t *testing.T) {
	s := open(t)
	arm(t, "store.update.before=error@2;store.commit.before=error@9")
	var batch []*item
	for _, id := range []string{"a", "b", "c"} {
		c := modelCommit(id, 1, 0)
		it, err := prepareCommit(&c)
		must(t, err)
		batch = append(batch, it)
	}
	// Hit 2 is b in the common transaction; alone it works.
	for _, it := range batch {
		must(t, s.queue.push(it))
	}
	for _, it := range batch {
		must(t, <-it.done)
	}
	for _, id := range []string{"a", "b", "c"} {
		_, err := checkThread(s, id)
		must(t, err)
	}
}

func batchOf(t *testing.T, commits ...thread.Commit) (batch []*item) {
	t.Helper()
	for i := range commits {
		it, err := prepareCommit(&commits[i])
		must(t, err)
		batch = append(batch, it)
	}
	return batch
}

// Each attempt to open the file may take seconds, so a batch of thousands must
// not make one for each of its changes.
func TestABatchIsAnsweredAtOnceWhenTheDatabaseCannotBeReopened(t *testing.T) {
	tests := map[string]struct {
		stuck  bool
		points string
	}{
		"before the batch":                   {true, "store.reopen.before=error"},
		"while its changes are tried singly": {false, "store.update.before=error;store.commit.fail=error;store.reopen.before=error"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := withoutCommitter(t, testPath(t))
			if test.stuck {
				s.opened.stick()
			}
			batch := batchOf(t, modelCommit("a", 1, 0), modelCommit("b", 1, 0), modelCommit("c", 1, 0))
			arm(t, test.points)
			s.commitBatch(batch)
			for _, it := range batch {
				wantCode(t, <-it.done, fault.StorageFailed)
			}
			for _, id := range []string{"b", "c"} {
				if _, err := s.Load(id); err == nil {
					t.Errorf("%s was refused, and is there", id)
				}
			}
			// The next change opens the file.
			batch = batchOf(t, modelCommit("d", 1, 0))
			s.commitBatch(batch)
			must(t, <-batch[0].done)
			_, err := s.Load("b")
			wantCode(t, err, fault.ThreadNotFound)
			must(t, s.closeFile())
		})
	}
}

func TestAClosedStoreAnswersInsteadOfHanging(t *testing.T) {
	s := open(t)
	must(t, s.Close())
	wantCode(t, s.Commit(modelCommit("t", 1, 0)), fault.StorageFailed)
	_, err := s.Load("t")
	wantCode(t, err, fault.StorageFailed)
	wantCode(t, s.Healthy(), fault.StorageFailed)
	_, err = s.Size()
	wantCode(t, err, fault.StorageFailed)
	must(t, s.Close())
}
