package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestTurnsThatNobodyAsksForAreSettled kills a daemon in the middle of turns and
// never names their threads to the next one: they are settled all the same, once
// the time for that has come.
func TestTurnsThatNobodyAsksForAreSettled(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	d := start(t, home)
	type left struct{ id, operation string }
	var all []left
	for i := range 20 { // more than are settled at once
		c := d.dial()
		var made snapshot
		if err := c.call("create_thread", object{"provider": "opencode", "workspace": object{"path": fmt.Sprintf("%s-work-%d", home, i)}}, &made); err != nil {
			t.Fatal(err)
		}
		op := fmt.Sprintf("left-%d", i)
		if err := c.call("send_text", object{"threadId": made.ThreadID, "operationId": op, "message": "hang"}, nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, left{made.ThreadID, op})
	}
	d.kill()
	killed := time.Now()

	d = start(t, home, "PEDELEC_DURATIONS=sweep-delay=50ms")
	c := d.operator()
	err := waitFor(patience, "all threads to be settled", func() (bool, error) {
		var list struct { // from the records: it loads no thread
			Threads []struct {
				UpdatedAt time.Time `json:"updatedAt"`
			} `json:"threads"`
		}
		err := c.call("list_threads", object{"limit": 100}, &list)
		settled := 0
		for _, row := range list.Threads {
			if row.UpdatedAt.After(killed) {
				settled++
			}
		}
		return settled == len(all), err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("all are settled %v after the crash", time.Since(killed))
	for _, l := range all {
		// A thread that is not settled yet is shown as the crash left it.
		var got struct {
			Snapshot snapshot `json:"snapshot"`
		}
		if err := c.call("subscribe_thread", object{"threadId": l.id}, &got); err != nil {
			t.Fatal(err)
		}
		s := got.Snapshot
		if s.Status != "idle" || s.Active != nil || s.LastCompleted == nil ||
			s.LastCompleted.OperationID != l.operation || codeOf(asError(s.LastCompleted.Err)) != "OPERATION_INTERRUPTED" {
			t.Errorf("%s of operation %s: %+v", l.id, l.operation, s)
		}
	}
}
