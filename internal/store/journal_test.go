package store

import (
	"fmt"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// TestRetentionKeepsTheNewestWholeGroups compares the journal with a model that
// trims a plain slice.
func TestRetentionKeepsTheNewestWholeGroups(t *testing.T) {
	dir := t.TempDir()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		s := New(fmt.Sprintf("%s/%d.db", dir, round))
		s.MaxJournalEvents = rapid.IntRange(1, 12).Draw(t, "maxEvents")
		s.MaxJournalBytes = int64(rapid.IntRange(100, 2000).Draw(t, "maxBytes"))
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		defer s.Close()

		type group struct {
			events []thread.Event
			bytes  int
		}
		var model []group
		var trimmed, seq uint64
		for r := range rapid.IntRange(1, 12).Draw(t, "commits") {
			c := thread.Commit{Create: r == 0, Record: thread.Record{ID: "t", Revision: uint64(r + 1), Status: thread.Idle}}
			added := 0
			for range rapid.IntRange(0, 3).Draw(t, "groups") {
				var g group
				size := rapid.IntRange(1, 4).Draw(t, "events")
				for i := range size {
					seq += uint64(rapid.IntRange(1, 3).Draw(t, "gap")) // numbers of deltas lie between
					ev := thread.Event{Kind: thread.EventAssistantMessage, Seq: seq, Grouped: i < size-1, Text: strings.Repeat("x", rapid.IntRange(0, 200).Draw(t, "text"))}
					var e encoder
					e.event(&ev)
					g.bytes += len(appendSeqKey(nil, "t", seq)) + len(e.b)
					g.events = append(g.events, ev)
				}
				model = append(model, g)
				c.Events = append(c.Events, g.events...)
				added++
			}
			c.Record.LatestSeq = seq
			if err := s.Commit(c); err != nil {
				t.Fatal(err)
			}
			for added > 0 && len(model) > added {
				events, bytes := 0, 0
				for _, g := range model {
					events, bytes = events+len(g.events), bytes+g.bytes
				}
				if events <= s.MaxJournalEvents && int64(bytes) <= s.MaxJournalBytes {
					break
				}
				trimmed = model[0].events[len(model[0].events)-1].Seq
				model = model[1:]
			}
			var want []uint64
			bytes := 0
			for _, g := range model {
				bytes += g.bytes
				for _, ev := range g.events {
					want = append(want, ev.Seq)
				}
			}
			page, err := s.Events("t", 0, seq, 1<<20, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			if got := seqs(page); fmt.Sprint(got) != fmt.Sprint(want) || page.TrimmedThrough != trimmed || page.More {
				t.Fatalf("journal %v trimmed through %d, more %v; want %v, %d", got, page.TrimmedThrough, page.More, want, trimmed)
			}
			_ = s.view("test", func(tx *bolt.Tx) error {
				h, _ := readHeader(tx, "t")
				if int(h.events) != len(want) || int(h.bytes) != bytes {
					t.Fatalf("counters %d events %d bytes, want %d and %d", h.events, h.bytes, len(want), bytes)
				}
				return nil
			})
		}
	})
}

func seqs(page thread.JournalPage) (seqs []uint64) {
	for _, ev := range page.Events {
		seqs = append(seqs, ev.Seq)
	}
	return seqs
}

func TestALoweredLimitIsReachedInBoundedSteps(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	for r := uint64(1); r <= 10; r++ {
		must(t, s.Commit(bigCommit("t", r, 300)))
	}
	must(t, s.Close())
	s = openAt(t, path, func(s *Store) { s.MaxJournalEvents = 10 })
	must(t, s.Commit(bigCommit("t", 11, 1)))
	page, err := s.Events("t", 0, 1<<40, 1<<20, 1<<30)
	must(t, err)
	if n := len(page.Events); n <= 10 || n > 2100 {
		t.Fatalf("%d events after the first commit", n)
	}
	for r := uint64(12); r <= 15; r++ {
		must(t, s.Commit(bigCommit("t", r, 1)))
	}
	page, err = s.Events("t", 0, 1<<40, 1<<20, 1<<30)
	must(t, err)
	wantEqual(t, len(page.Events), 10)
}

// bigCommit appends n ungrouped events to a thread that has 300 a revision.
func bigCommit(id string, r uint64, n int) thread.Commit {
	c := thread.Commit{Create: r == 1, Record: thread.Record{ID: id, Revision: r, Status: thread.Idle, LatestSeq: r * 300}}
	for i := range n {
		c.Events = append(c.Events, thread.Event{Kind: thread.EventUsageUpdated, Seq: (r-1)*300 + uint64(i) + 1})
	}
	return c
}

func TestAPageOfEventsNeverSplitsAGroup(t *testing.T) {
	s := open(t)
	for r := uint64(1); r <= 5; r++ {
		must(t, s.Commit(modelCommit("t", r, 1000)))
	}
	tests := []struct {
		name            string
		after, through  uint64
		limit, maxBytes int
		want            []uint64
		more            bool
	}{
		{"all", 0, 99, 0, 0, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, false},
		{"after a number", 3, 9, 0, 0, []uint64{4, 5, 6, 7, 8, 9}, false},
		{"at least one group", 0, 99, 1, 1, []uint64{1, 2, 3}, true},
		{"limit inside a group", 0, 99, 4, 0, []uint64{1, 2, 3, 4, 5, 6}, true},
		{"limit at the end of a group", 0, 99, 3, 0, []uint64{1, 2, 3}, true},
		{"limit at the end of the range", 9, 12, 3, 0, []uint64{10, 11, 12}, false},
		{"bytes", 0, 99, 0, 5000, []uint64{1, 2, 3, 4, 5, 6}, true},
		{"nothing", 15, 99, 0, 0, nil, false},
		{"empty range", 5, 5, 0, 0, nil, false},
		{"far", 1 << 60, 1 << 61, 0, 0, nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			page, err := s.Events("t", test.after, test.through, test.limit, test.maxBytes)
			must(t, err)
			wantEqual(t, seqs(page), test.want)
			wantEqual(t, page.More, test.more)
		})
	}
}

func TestALargePageIsReadInSeveralTransactions(t *testing.T) {
	s := open(t)
	for r := uint64(1); r <= 6; r++ {
		must(t, s.Commit(modelCommit("t", r, 60<<10)))
	}
	page, err := s.Events("t", 0, 99, 100, 4<<20)
	must(t, err)
	wantEqual(t, len(page.Events), 18)
	// One event may be larger than a transaction's share.
	must(t, s.Commit(modelCommit("t", 7, 300<<10)))
	page, err = s.Events("t", 17, 99, 100, 4<<20)
	must(t, err)
	wantEqual(t, seqs(page), []uint64{18, 19, 20, 21})
}

func TestRetentionThatOvertakesAReadNeverLeavesAPageWithoutProgress(t *testing.T) {
	tests := map[string]struct {
		read    []uint64 // before retention removes 1 to 6
		page    []uint64
		trimmed uint64
		more    bool
	}{
		"in the second group":   {[]uint64{1, 2, 3, 4}, []uint64{1, 2, 3}, 0, true},
		"after the first group": {[]uint64{1, 2, 3}, []uint64{1, 2, 3}, 0, true},
		"in the first group":    {[]uint64{1, 2}, []uint64{7, 8, 9}, 6, true},
		"before the first":      {nil, []uint64{7, 8, 9}, 6, true},
		"too late":              {[]uint64{1, 2, 3, 4, 5, 6}, []uint64{1, 2, 3, 4, 5, 6}, 0, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(s *Store) { s.MaxJournalEvents = 6 })
			for r := uint64(1); r <= 4; r++ {
				must(t, s.Commit(modelCommit("t", r, 0)))
			}
			r := newJournalReader(journalRange{threadID: "t", through: 99, limit: 3, bytes: 1 << 20})
			for _, seq := range test.read {
				r.page.Events = append(r.page.Events, thread.Event{Seq: seq, Grouped: seq%eventsPerCommit != 0})
				r.after, r.inGroup = seq, seq%eventsPerCommit != 0
				r.limit--
			}
			must(t, s.view("test", r.read))
			wantEqual(t, r.done, true)
			wantEqual(t, seqs(r.page), test.page)
			wantEqual(t, r.page.TrimmedThrough, test.trimmed)
			wantEqual(t, r.page.More, test.more)

			// What is left comes with the next call, which tells what is missing.
			next, err := s.Events("t", test.page[len(test.page)-1], 99, 0, 0)
			must(t, err)
			last := next.Events[len(next.Events)-1].Seq
			wantEqual(t, last, uint64(12))
			wantEqual(t, next.TrimmedThrough, uint64(6))
		})
	}
}

// TestPagesBehindAThreadsEventsAreLeftNearlyFull guards the size of the journal:
// bbolt leaves half of each page empty unless it is told that nothing comes between.
func TestPagesBehindAThreadsEventsAreLeftNearlyFull(t *testing.T) {
	s := open(t)
	const threads, commits, events = 3, 150, 10
	for r := range uint64(commits) {
		for i := range threads {
			c := thread.Commit{
				Create: r == 0,
				Record: thread.Record{ID: fmt.Sprint("t", i), Revision: r + 1, LatestSeq: (r + 1) * events, Status: thread.Idle},
			}
			for n := range uint64(events) {
				c.Events = append(c.Events, thread.Event{Kind: thread.EventStatusChanged, Seq: r*events + n + 1, Status: thread.Idle})
			}
			must(t, s.Commit(c))
		}
	}
	must(t, s.view("test", func(tx *bolt.Tx) error {
		stats := tx.Bucket(bucketJournal).Stats()
		if share := float64(stats.LeafInuse) / float64(stats.LeafAlloc); share < 0.75 {
			t.Errorf("the journal's pages are filled to %.0f %%", 100*share)
		}
		return nil
	}))
}
