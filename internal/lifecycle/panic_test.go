package lifecycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestAPanicWhileStoringRefusesTheInput(t *testing.T) {
	startOn(t, nil, func(c *Config) { c.Store = panickyStore{c.Store, "x"} }, func(b *bench) {
		id := b.create()
		op := "x"
		_, err := b.SendText(b.Context(), anyone, id, "hello", &op)
		wantCode(t, err, fault.StorageFailed)
		time.Sleep(DefaultDurations.Retry) // it is found that nothing was stored
		synctest.Wait()
		b.send(id, "y", "hello")
	})
}

// panickyStore panics at the commit that admits one operation.
type panickyStore struct {
	Store
	operation string
}

func (s panickyStore) Commit(c thread.Commit) error {
	if len(c.Operations) > 0 && c.Operations[0].ID == s.operation {
		panic("the test's store")
	}
	return s.Store.Commit(c)
}

func TestAPanicOfARuntimeFailsItsTurnOnly(t *testing.T) {
	start(t, func(b *bench) {
		b.runtime.attach = func(context.Context, thread.SessionSpec) (thread.Attachment, error) { panic("the test's runtime") }
		id := b.create()
		w := b.watch(id)
		b.send(id, "op", "x")
		w.expect("status_changed running (op)", "error (op) INTERNAL", "status_changed error (op)", "operation_completed (op) false INTERNAL")
	})
}

func TestAPanicBehindACommitGivesUpTheTurn(t *testing.T) {
	startOn(t, nil, func(c *Config) {
		encode := c.Encode
		c.Encode = func(dst []byte, id string, ev *thread.Event) []byte {
			if ev.OperationID == "bad" && ev.Status == thread.Running {
				panic("the test's encoder")
			}
			return encode(dst, id, ev)
		}
	}, func(b *bench) {
		id := b.create()
		op := "bad"
		if _, err := b.SendText(b.Context(), anyone, id, "x", &op); err != nil {
			t.Fatalf("the operation is admitted, but the answer is %v", err)
		}
		time.Sleep(DefaultDurations.Stop + tick)
		synctest.Wait()
		s := b.snapshot(id)
		if s.Active != nil || s.LastCompleted == nil || s.LastCompleted.Error.Code != fault.Internal {
			t.Fatalf("snapshot = %+v", s)
		}
	})
}
