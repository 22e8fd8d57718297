package store

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// fill makes n threads t-00000, t-00001, …; every third is ended, every second
// belongs to another owner, and later ones were updated earlier.
func fill(t testing.TB, s *Store, n int, pathBytes int) {
	t.Helper()
	const together = 500
	for from := 0; from < n; from += together {
		var batch []*item
		for i := from; i < min(n, from+together); i++ {
			c := modelCommit(fmt.Sprintf("t-%05d", i), 1, 0)
			c.Events, c.Operations, c.Skills = nil, nil, nil
			c.Record.Workspace.Path = "/" + strings.Repeat("p", pathBytes)
			c.Record.UpdatedAt = testTime.Add(-time.Duration(i) * time.Second)
			if i%3 == 0 {
				c.Record.Status = thread.Ended
			}
			if i%2 == 0 {
				c.Record.Owner = "https://other.example"
			}
			it, err := prepareCommit(&c)
			must(t, err)
			must(t, s.queue.push(it))
			batch = append(batch, it)
		}
		for _, it := range batch {
			must(t, <-it.done)
			it.free()
		}
	}
}

func TestListsArePagedAndFiltered(t *testing.T) {
	s := open(t)
	fill(t, s, 1500, 1000)
	tests := []struct {
		name  string
		query thread.ListQuery
		total int
		page  int
	}{
		{"all", thread.ListQuery{Limit: 1000}, 1500, 1000},
		{"default limit", thread.ListQuery{}, 1500, 100},
		{"limit too large", thread.ListQuery{Limit: 5000}, 1500, 1000},
		{"by status", thread.ListQuery{Status: thread.Ended, Limit: 500}, 500, 500},
		{"by owner", thread.ListQuery{Owner: "https://other.example", Limit: 300}, 750, 300},
		{"by both", thread.ListQuery{Status: thread.Ended, Owner: "https://example.org", Limit: 249}, 250, 249},
		{"nobody's", thread.ListQuery{Owner: "https://nobody.example"}, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			last, total := "", 0
			for first := true; first || test.query.After != ""; first = false {
				page, err := s.List(test.query)
				must(t, err)
				if first {
					wantEqual(t, len(page.Threads), test.page)
				}
				for _, row := range page.Threads {
					if row.ThreadID <= last {
						t.Fatalf("%s after %s", row.ThreadID, last)
					}
					last = row.ThreadID
				}
				total += len(page.Threads)
				if page.Next != "" && page.Next != last {
					t.Fatalf("next is %s, the last id %s", page.Next, last)
				}
				test.query.After = page.Next
			}
			wantEqual(t, total, test.total)
		})
	}
}

func TestLiveThreadsAreNamedInOrder(t *testing.T) {
	s := open(t)
	fill(t, s, 10, 1)
	ids, err := s.Live("", 3)
	must(t, err)
	wantEqual(t, ids, []string{"t-00001", "t-00002", "t-00004"})
	ids, err = s.Live("t-00004", 10)
	must(t, err)
	wantEqual(t, ids, []string{"t-00005", "t-00007", "t-00008"})
	ids, err = s.Live("", 0)
	must(t, err)
	wantEqual(t, len(ids), 0)
}

func TestTheEndedThreadThatWasUpdatedLongestAgoComesFirst(t *testing.T) {
	s := open(t)
	fill(t, s, 100, 1)
	rows, err := s.EndedOldestFirst(3)
	must(t, err)
	var ids []string
	for _, row := range rows {
		ids = append(ids, row.ThreadID)
	}
	wantEqual(t, ids, []string{"t-00099", "t-00096", "t-00093"})
	rows, err = s.EndedOldestFirst(1000)
	must(t, err)
	wantEqual(t, len(rows), 34)
}

func TestAScanOfManyKeysGoesOnInNewTransactions(t *testing.T) {
	s := open(t)
	const threads = maxViewKeys + 700
	fill(t, s, threads, 1)
	page, err := s.List(thread.ListQuery{Owner: "https://nobody.example"})
	must(t, err)
	wantEqual(t, len(page.Threads), 0)
	ids, err := s.Live("", threads)
	must(t, err)
	wantEqual(t, len(ids), threads-(threads+2)/3)
}

func TestAListShowsTheStatusThatSettlingWillGive(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path, func(s *Store) { s.InstanceID = "before" })
	put := func(id string, change func(r *thread.Record)) {
		c := modelCommit(id, 1, 0)
		c.Events, c.Operations, c.Skills = nil, nil, nil
		c.Record.Instance = "before"
		c.Record.Workspace = thread.Workspace{Path: "/p", Instance: "before"}
		c.Record.Active, c.Record.AutoEnd, c.Record.Status = nil, false, thread.Idle
		change(&c.Record)
		must(t, s.Commit(c))
	}
	running := &thread.ActiveOperation{ID: "op", Kind: thread.User, StartedAt: testTime}
	put("t1-running", func(r *thread.Record) { r.Status, r.Active = thread.Running, running })
	put("t2-managed", func(r *thread.Record) { r.Workspace.Managed = true })
	put("t3-stopping", func(r *thread.Record) { r.Status, r.Active = thread.Stopping, running })
	put("t4-failed", func(r *thread.Record) { r.Status = thread.Failed })
	put("t5-ended", func(r *thread.Record) { r.Status = thread.Ended })
	must(t, s.Close())

	s = openAt(t, path, func(s *Store) { s.InstanceID = "now" })
	page, err := s.List(thread.ListQuery{})
	must(t, err)
	got := ""
	for _, row := range page.Threads {
		got += row.ThreadID + " " + row.Status.String() + "; "
	}
	if want := "t1-running idle; t2-managed ended; t3-stopping ended; t4-failed error; t5-ended ended; "; got != want {
		t.Errorf("list = %s\nwant   %s", got, want)
	}
	if page, err = s.List(thread.ListQuery{Status: thread.Running}); err != nil || len(page.Threads) != 0 {
		t.Errorf("%d threads are listed as running, %v", len(page.Threads), err)
	}
}

// spoil overwrites the record of a thread in a closed store.
func spoil(t *testing.T, path, id string, record []byte) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketThreads).Put([]byte(id), record) }))
	must(t, db.Close())
}

func TestADamagedRecordIsLeftOutOfListsAndReportedOnce(t *testing.T) {
	whole := func(c thread.Commit) []byte {
		it, err := prepareCommit(&c)
		must(t, err)
		return it.value
	}
	ended := modelCommit("b", 1, 0)
	ended.Record.Status = thread.Ended
	tests := map[string][]byte{
		"nothing":                 {},
		"cut in the header":       whole(ended)[:headerBytes-1],
		"cut behind the header":   whole(ended)[:headerBytes],
		"another version":         append([]byte{99}, whole(ended)[1:]...),
		"cut behind the instance": whole(ended)[:headerBytes+12],
	}
	for name, record := range tests {
		t.Run(name, func(t *testing.T) {
			path := testPath(t)
			s := openAt(t, path)
			for _, id := range []string{"a", "b", "c", "d"} {
				c := modelCommit(id, 1, 0)
				if id != "d" {
					c.Record.Status = thread.Ended
				}
				must(t, s.Commit(c))
			}
			must(t, s.Close())
			spoil(t, path, "b", record)

			var log bytes.Buffer
			s = openAt(t, path, func(s *Store) { s.Log = zerolog.New(&log) })
			for range 2 {
				page, err := s.List(thread.ListQuery{})
				must(t, err)
				wantEqual(t, listed(page.Threads), []string{"a", "c", "d"})
				page, err = s.List(thread.ListQuery{Status: thread.Ended, Limit: 1})
				must(t, err)
				wantEqual(t, page.Next, "a")
				page, err = s.List(thread.ListQuery{Limit: 1, After: "a"})
				must(t, err)
				wantEqual(t, listed(page.Threads), []string{"c"})
				oldest, err := s.EndedOldestFirst(10)
				must(t, err)
				wantEqual(t, listed(oldest), []string{"a", "c"})
			}
			wantCode(t, s.Healthy(), fault.StorageFailed)
			if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), `thread \"b\"`) {
				t.Errorf("log is %s", log.String())
			}
			_, err := s.Load("b")
			wantCode(t, err, fault.StorageFailed)
		})
	}
}

func TestARecordOnALostPageIsLeftOutToo(t *testing.T) {
	s := open(t)
	fill(t, s, 3, 1)
	var seen []string
	must(t, s.scanThreads("test", bucketThreads, "", func(_ *bolt.Tx, id, _ []byte) (copied int, more bool, err error) {
		if string(id) == "t-00001" {
			panic("what a fault in the mapped file looks like")
		}
		seen = append(seen, string(id))
		return 0, true, nil
	}))
	wantEqual(t, seen, []string{"t-00000", "t-00002"})
	wantCode(t, s.Healthy(), fault.StorageFailed)
}

func listed(rows []thread.Summary) (ids []string) {
	for _, row := range rows {
		ids = append(ids, row.ThreadID)
	}
	return ids
}
