package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/leak"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// childEnv makes the test binary run a part of a test as a child process
// instead of the tests.
const childEnv = "STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		if err := fault.Arm(os.Getenv(fault.PointsEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(childParts[part]())
	}
	leak.VerifyTestMain(m)
}

// testTime is when everything in these tests happens.
var testTime = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)

func testPath(t testing.TB) string { return filepath.Join(t.TempDir(), "core.db") }

func openAt(t testing.TB, path string, set ...func(*Store)) *Store {
	t.Helper()
	s := New(path)
	s.InstanceID = "instance-1"
	s.Now = func() time.Time { return testTime }
	for _, f := range set {
		f(s)
	}
	if err := s.Open(); err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func open(t testing.TB, set ...func(*Store)) *Store { return openAt(t, testPath(t), set...) }

// arm sets failpoints for the rest of the test.
func arm(t *testing.T, spec string) {
	t.Helper()
	if err := fault.Arm(spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fault.Arm("") })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Fatalf("error is %v, want code %s", err, code)
	}
}

func wantEqual(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("differs (-want +got):\n%s", diff)
	}
}

// eventsPerCommit is how many events each commit of the model has: one group.
const eventsPerCommit = 3

// modelCommit is revision r of a thread in the model that checkThread knows:
// it appends one group of three events and completes one operation.
func modelCommit(id string, r uint64, textBytes int) thread.Commit {
	latest := r * eventsPerCommit
	completed := &thread.CompletedOperation{ID: fmt.Sprintf("op-%d", r), Kind: thread.User, Success: true, CompletedAt: testTime}
	c := thread.Commit{
		Create: r == 1,
		Record: thread.Record{
			ID: id, Revision: r, Instance: "instance-1", Provider: thread.OpenCode, Effort: thread.DefaultEffort,
			Owner: "https://example.org", Workspace: thread.Workspace{Path: "/w/" + id}, CreatedAt: testTime,
			UpdatedAt: testTime.Add(time.Duration(r) * time.Second), Status: thread.Idle, LatestSeq: latest,
			LastCompleted: completed,
		},
		Operations: []thread.Operation{{
			ID: completed.ID, Kind: thread.User, Hash: thread.HashText(completed.ID), Text: string(make([]byte, textBytes)),
			AdmittedSeq: latest, StartedAt: testTime, Completed: completed,
		}},
	}
	for i := range uint64(eventsPerCommit) {
		c.Events = append(c.Events, thread.Event{
			Kind: thread.EventAssistantMessage, Seq: latest - eventsPerCommit + 1 + i, OperationID: completed.ID,
			Grouped: i < eventsPerCommit-1, Text: string(make([]byte, textBytes)),
		})
	}
	if r == 1 {
		c.Skills = &thread.Skills{Guidance: id, Tools: []thread.Tool{{Name: "a", Description: "b", Timeout: time.Minute}}}
	}
	return c
}

// checkThread verifies that a thread of the model is whole and returns its
// revision.
func checkThread(s *Store, id string) (revision uint64, err error) {
	l, err := s.Load(id)
	if err != nil {
		return 0, err
	}
	r := l.Record.Revision
	want := modelCommit(id, r, 0)
	if l.Record.LatestSeq != want.Record.LatestSeq || l.Record.LastCompleted.ID != want.Record.LastCompleted.ID {
		return r, fmt.Errorf("thread %s revision %d: record %+v", id, r, l.Record)
	}
	if l.Skills == nil || l.Skills.Guidance != id {
		return r, fmt.Errorf("thread %s revision %d: skills %+v", id, r, l.Skills)
	}
	if n := min(r, uint64(s.MaxOperations)); uint64(len(l.Operations)) != n || l.Operations[n-1].ID != want.Operations[0].ID {
		return r, fmt.Errorf("thread %s revision %d: %d operations", id, r, len(l.Operations))
	}
	page, err := s.Events(id, 0, 1<<62, 1<<30, 1<<40)
	if err != nil {
		return r, err
	}
	next := page.TrimmedThrough + 1
	for _, ev := range page.Events {
		if ev.Seq != next || ev.Grouped != (ev.Seq%eventsPerCommit != 0) {
			return r, fmt.Errorf("thread %s revision %d: event %d (grouped %v), want %d", id, r, ev.Seq, ev.Grouped, next)
		}
		next++
	}
	if next != l.Record.LatestSeq+1 {
		return r, fmt.Errorf("thread %s revision %d: journal ends before %d", id, r, next)
	}
	return r, nil
}
