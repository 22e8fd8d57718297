package store

import (
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// compareErrors compares errors by what is stored of them.
var compareErrors = cmp.Comparer(func(a, b *fault.Error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Code == b.Code && a.Msg == b.Msg && cmp.Equal(a.Details, b.Details)
})

func fullError() *fault.Error {
	return fault.New(fault.ProviderRequestFailed, "no").With("threadId", "t").With("nested", map[string]any{"n": 1.5, "l": []any{"a", nil, true}})
}

func fullRecord() thread.Record {
	return thread.Record{
		ID: "thread_1", Revision: 1 << 60, Instance: "i", Provider: thread.Ollama, Effort: thread.HighEffort,
		EffortArgs: []string{"model", "x", "", "y"}, Owner: "https://a.example",
		Workspace: thread.Workspace{Path: "/a/ü\xff", Managed: true, Instance: "j"}, AutoEnd: true,
		CreatedAt: testTime, UpdatedAt: testTime.Add(time.Hour), Status: thread.WaitingToolResult, LatestSeq: 77, BlockEnd: 4096,
		Session:  thread.ProviderSession{ID: "s", Resumable: true, Instructed: true, UserTurn: true, UsageBase: 12},
		Prepared: true, Usage: thread.Usage{Known: true, TotalTokens: 99},
		Active:        &thread.ActiveOperation{ID: "op", Kind: thread.Prepare, StartedAt: testTime},
		LastCompleted: &thread.CompletedOperation{ID: "old", Kind: thread.User, Error: fullError(), CompletedAt: testTime},
		StagedUpload:  "up",
	}
}

func TestARecordComesBackAsItWas(t *testing.T) {
	for name, r := range map[string]thread.Record{
		"full": fullRecord(),
		"bare": {ID: "t", Status: thread.Idle},
	} {
		t.Run(name, func(t *testing.T) {
			var e encoder
			e.record(&r)
			got, err := decodeRecord(r.ID, e.b)
			must(t, err)
			if diff := cmp.Diff(r, got, compareErrors); diff != "" {
				t.Fatal(diff)
			}
			sum, err := decodeSummary([]byte(r.ID), e.b)
			must(t, err)
			wantEqual(t, sum, thread.Summary{
				ThreadID: r.ID, Provider: r.Provider, Status: r.Status, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
				Owner: r.Owner, WorkspacePath: r.Workspace.Path, Usage: r.Usage,
			})
			wantEqual(t, string(summaryOwner(e.b)), r.Owner)
		})
	}
}

func fullEvent() thread.Event {
	return thread.Event{
		Kind: thread.EventToolResult, Seq: 9, OperationID: "op", Grouped: true, Status: thread.Idle, Text: "a\xffb",
		Part: thread.Part{Index: 2, Count: 3}, RequestID: "r", ToolName: "n", Args: jsontext.Value("{ \"a\" :1.00 }"),
		Result: jsontext.Value("[ 1e2,\n2 ]"), ResultTruncated: true, ProviderSessionID: "p", TotalTokens: 1 << 63,
		OperationKind: thread.User, Success: true, Source: thread.Claude, Error: fullError(),
	}
}

func TestAnEventComesBackAsItWas(t *testing.T) {
	for name, ev := range map[string]thread.Event{"full": fullEvent(), "bare": {Kind: thread.EventCreated, Seq: 1}} {
		t.Run(name, func(t *testing.T) {
			var e encoder
			e.event(&ev)
			got, err := decodeEvent(ev.Seq, e.b)
			must(t, err)
			if diff := cmp.Diff(ev, got, compareErrors); diff != "" {
				t.Fatal(diff)
			}
			if grouped(e.b) != ev.Grouped {
				t.Fatal("grouped differs")
			}
		})
	}
}

func TestAnOperationComesBackAsItWas(t *testing.T) {
	op := thread.Operation{
		ID: "op", Kind: thread.User, Hash: thread.HashText("x"), Text: "x", TextTruncated: true, AlreadyPrepared: true,
		AdmittedSeq: 5, StartedAt: testTime, Completed: &thread.CompletedOperation{ID: "op", Kind: thread.User, Success: true, CompletedAt: testTime},
	}
	var e encoder
	e.operation(&op)
	got, err := decodeOperation("op", e.b)
	must(t, err)
	wantEqual(t, got, op)
	a, err := decodeAdmitted([]byte("op"), e.b)
	must(t, err)
	wantEqual(t, a.Admitted, thread.Admitted{ID: "op", Kind: thread.User, Hash: op.Hash, AlreadyPrepared: true})
}

func TestSkillsComeBackAsTheyWere(t *testing.T) {
	s := &thread.Skills{Guidance: "g", Tools: []thread.Tool{{Name: "a", Description: "b", ArgsSchema: jsontext.Value(`{ }`), Timeout: time.Second}, {Name: "c"}}}
	var e encoder
	e.skills(s)
	got, err := decodeSkills(e.b)
	must(t, err)
	wantEqual(t, got, s)
}

func TestDetailsThatAreNoJSONAreReplacedNotRefused(t *testing.T) {
	var e encoder
	e.fault(fault.New(fault.Internal, "m").With("f", func() {}))
	d := decoder{b: e.b}
	got := d.fault()
	must(t, d.end())
	if got.Details["detailsLost"] == nil {
		t.Fatalf("details %v", got.Details)
	}
}

func TestATruncatedOrLongerValueIsDamaged(t *testing.T) {
	r, ev := fullRecord(), fullEvent()
	var record, event encoder
	record.record(&r)
	event.event(&ev)
	for n := range record.b {
		if _, err := decodeRecord("t", record.b[:n]); !errors.Is(err, errDamaged) {
			t.Fatalf("record cut to %d: %v", n, err)
		}
	}
	for n := range event.b {
		if _, err := decodeEvent(1, event.b[:n]); !errors.Is(err, errDamaged) {
			t.Fatalf("event cut to %d: %v", n, err)
		}
	}
	if _, err := decodeRecord("t", append(record.b, 0)); !errors.Is(err, errDamaged) {
		t.Fatalf("longer record: %v", err)
	}
}

func FuzzDecoders(f *testing.F) {
	r, ev := fullRecord(), fullEvent()
	op := modelCommit("t", 1, 3).Operations[0]
	var e encoder
	e.record(&r)
	f.Add(e.b)
	e = encoder{}
	e.event(&ev)
	f.Add(e.b)
	e = encoder{}
	e.operation(&op)
	f.Add(e.b)
	e = encoder{}
	e.skills(&thread.Skills{Guidance: "g", Tools: []thread.Tool{{Name: "a"}}})
	f.Add(e.b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeRecord("t", b); err == nil {
			var e encoder
			e.record(&r)
			again, err := decodeRecord("t", e.b)
			if err != nil || !cmp.Equal(r, again, compareErrors) {
				t.Fatalf("record %+v read again as %+v, %v", r, again, err)
			}
			_, _ = decodeSummary([]byte("t"), b)
			summaryOwner(b)
			writtenBy(b, "i", 1)
		}
		if ev, err := decodeEvent(1, b); err == nil {
			var e encoder
			e.event(&ev)
			again, err := decodeEvent(1, e.b)
			if err != nil || !cmp.Equal(ev, again, compareErrors) {
				t.Fatalf("event %+v read again as %+v, %v", ev, again, err)
			}
		}
		_, _ = decodeOperation("o", b)
		_, _ = decodeAdmitted([]byte("o"), b)
		_, _, _ = operationOrder(b)
		_, _ = decodeSkills(b)
	})
}
