package store

import (
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestThreadsThatNeedSettlingAreNamedInOrder(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path, func(s *Store) { s.InstanceID = "before" })
	put := func(id string, change func(r *thread.Record)) {
		t.Helper()
		c := modelCommit(id, 1, 0)
		c.Record.Instance = "before"
		change(&c.Record)
		must(t, s.Commit(c))
	}
	running := &thread.ActiveOperation{ID: "op", Kind: thread.User, StartedAt: testTime}
	put("a-idle", func(*thread.Record) {})
	put("b-running", func(r *thread.Record) { r.Status, r.Active = thread.Running, running })
	put("c-failed", func(r *thread.Record) { r.Status = thread.Failed })
	put("d-managed", func(r *thread.Record) { r.Workspace.Managed, r.Workspace.Instance = true, "before" })
	put("e-damaged", func(r *thread.Record) { r.AutoEnd = true })
	put("f-ended", func(r *thread.Record) { r.Status, r.AutoEnd = thread.Ended, true })
	put("g-bound", func(r *thread.Record) { r.AutoEnd = true })
	put("h-upload", func(r *thread.Record) { r.StagedUpload = "u" })
	ids, err := s.Unsettled("", 10)
	must(t, err)
	wantEqual(t, len(ids), 0) // its own are never
	ids, err = s.EndWithDaemon("", 10)
	must(t, err)
	wantEqual(t, ids, []string{"d-managed", "e-damaged", "g-bound"})
	must(t, s.Close())
	spoil(t, path, "e-damaged", []byte{valueVersion})

	s = openAt(t, path, func(s *Store) { s.InstanceID = "now" })
	tests := []struct {
		name  string
		after string
		limit int
		want  []string
	}{
		{"all", "", 10, []string{"b-running", "d-managed", "g-bound", "h-upload"}},
		{"some", "", 2, []string{"b-running", "d-managed"}},
		{"the next", "d-managed", 2, []string{"g-bound", "h-upload"}},
		{"after the last", "h-upload", 2, nil},
		{"none", "", 0, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ids, err := s.Unsettled(test.after, test.limit)
			must(t, err)
			wantEqual(t, ids, test.want)
		})
	}
	wantCode(t, s.Healthy(), fault.StorageFailed)
	ids, err = s.EndWithDaemon("d-managed", 10)
	must(t, err)
	wantEqual(t, ids, []string{"g-bound"}) // whoever made them

	settled := modelCommit("b-running", 2, 0)
	settled.Record.Instance = "now"
	must(t, s.Commit(settled))
	ids, err = s.Unsettled("", 1)
	must(t, err)
	wantEqual(t, ids, []string{"d-managed"})
}

func TestOneUnsettledThreadIsFoundBehindManySettledOnes(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	fill(t, s, maxViewKeys*2, 1) // a third of them ended
	c := modelCommit("u", 1, 0)
	c.Record.AutoEnd = true
	must(t, s.Commit(c))
	must(t, s.Close())
	s = openAt(t, path, func(s *Store) { s.InstanceID = "now" })
	ids, err := s.Unsettled("", 10)
	must(t, err)
	wantEqual(t, ids, []string{"u"})
}
