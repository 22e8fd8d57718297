package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// FuzzListCursor asks for lists behind anything: the pages are the threads behind
// it, each once, in order.
func FuzzListCursor(f *testing.F) {
	f.Add("", uint8(2))
	f.Add("t0000000000000003", uint8(1))
	f.Add("t0000000000000003\x00", uint8(3))
	f.Add("\xff", uint8(0))
	s := open(f)
	var ids []string
	for i := range 9 {
		id := fmt.Sprintf("t%016d", i)
		ids = append(ids, id)
		must(f, s.Commit(modelCommit(id, 1, 0)))
	}
	f.Fuzz(func(t *testing.T, after string, limit uint8) {
		query := thread.ListQuery{After: after, Limit: int(limit%4) + 1}
		var got []string
		for {
			page, err := s.List(query)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Threads) > query.Limit {
				t.Fatalf("a page of %d threads, %d were asked for", len(page.Threads), query.Limit)
			}
			for _, found := range page.Threads {
				got = append(got, found.ThreadID)
			}
			if page.Next == "" {
				break
			}
			query.After = page.Next
		}
		want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id <= after })
		if !slices.Equal(got, want) {
			t.Fatalf("behind %q there are %q, want %q", after, got, want)
		}
	})
}

// FuzzEventsCursor asks for events between any numbers: the pages are those events,
// each once, in order, and every call makes progress.
func FuzzEventsCursor(f *testing.F) {
	const id, commits = "t0123456789abcdef", 5
	f.Add(uint64(0), ^uint64(0), 1, 0)
	f.Add(uint64(3), uint64(7), 100, 1)
	f.Add(^uint64(0), uint64(0), -1, -1)
	s := open(f)
	for r := range uint64(commits) {
		must(f, s.Commit(modelCommit(id, r+1, 0)))
	}
	all, err := s.Events(id, 0, ^uint64(0), 0, 0)
	must(f, err)
	f.Fuzz(func(t *testing.T, after, through uint64, limit, maxBytes int) {
		var got, want []uint64
		for _, ev := range all.Events {
			if ev.Seq > after && ev.Seq <= through {
				want = append(want, ev.Seq)
			}
		}
		for {
			page, err := s.Events(id, after, through, limit, maxBytes)
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range page.Events {
				got = append(got, ev.Seq)
				after = ev.Seq
			}
			if !page.More {
				break
			}
			if len(page.Events) == 0 {
				t.Fatalf("more is there behind %d, and nothing came", after)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}
