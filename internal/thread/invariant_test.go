package thread

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// checkStep returns what a step broke of that which holds for every status and
// input, or nil.
func checkStep(before State, in Input, after State, out *Output) error {
	return errors.Join(
		checkState(after),
		checkSequence(before, after, out),
		checkStatus(before, after, out),
		checkCompletions(before, after, out),
		checkDurability(before, after, out),
		checkCallers(before, in, after, out),
		checkAfterEnded(before, in, out),
		checkRequests(before, after, out),
		checkNativeCalls(before, in, after, out),
	)
}

// checkState checks one state by itself.
func checkState(s State) error {
	if (s.Active != nil) != s.Status.InTurn() {
		return fmt.Errorf("status %s, active operation %v", s.Status, s.Active)
	}
	if (s.Active != nil) != (s.turn.id != 0) {
		return fmt.Errorf("turn %d, active operation %v", s.turn.id, s.Active)
	}
	if s.Active == nil && (len(s.turn.open) > 0 || s.turn.verdict != undecided) {
		return fmt.Errorf("something is left of a turn: text %d, verdict %d", len(s.turn.open), s.turn.verdict)
	}
	if (s.Status == Stopping) != (s.turn.verdict == verdictEnd) {
		return fmt.Errorf("status %s, verdict %d", s.Status, s.turn.verdict)
	}
	if s.turn.phase == attaching && s.turn.verdict != undecided {
		return fmt.Errorf("a turn of which nothing was written waits for its provider")
	}
	if len(s.Operations) > MaxOperations {
		return fmt.Errorf("%d operations are remembered", len(s.Operations))
	}
	return checkBroker(s)
}

// checkOperationID checks that an event names an operation where clients need
// it, and nowhere else. A status may do either; the order tests say when.
func checkOperationID(ev Event) error {
	named := ev.OperationID != ""
	switch ev.Kind {
	case EventStatusChanged:
		return nil
	case EventCreated, EventEnded, EventUsageUpdated:
		if named {
			return fmt.Errorf("%s names an operation", ev.Kind)
		}
	default:
		if !named {
			return fmt.Errorf("%s names no operation", ev.Kind)
		}
	}
	return nil
}

func checkSequence(before, after State, out *Output) error {
	for i, ev := range out.Events {
		if want := before.LatestSeq + uint64(i) + 1; ev.Seq != want {
			return fmt.Errorf("event %d has number %d, want %d", i, ev.Seq, want)
		}
		if err := checkOperationID(ev); err != nil {
			return err
		}
		if ev.Kind == EventAssistantDelta && ev.Seq > before.BlockEnd {
			return fmt.Errorf("delta %d lies behind the block that ends at %d", ev.Seq, before.BlockEnd)
		}
		if ev.Kind == EventAssistantDelta && ev.Grouped {
			return fmt.Errorf("a delta is part of a group")
		}
	}
	if n := len(out.Events); n > 0 && out.Events[n-1].Grouped {
		return fmt.Errorf("the last event says that its group goes on")
	}
	if want := before.LatestSeq + uint64(len(out.Events)); after.LatestSeq != want {
		return fmt.Errorf("latestSeq %d, want %d", after.LatestSeq, want)
	}
	if after.Usage.TotalTokens < before.Usage.TotalTokens || before.Usage.Known && !after.Usage.Known {
		return fmt.Errorf("usage fell from %v to %v", before.Usage, after.Usage)
	}
	return nil
}

// checkStatus checks that a client that follows the events knows the status.
func checkStatus(before, after State, out *Output) error {
	status, ends := before.Status, 0
	for _, ev := range out.Events {
		switch ev.Kind {
		case EventStatusChanged:
			status = ev.Status
		case EventEnded:
			ends++
		}
	}
	if status != after.Status {
		return fmt.Errorf("the events say %s, the state %s", status, after.Status)
	}
	want := 0
	if before.Status != Ended && after.Status == Ended {
		want = 1
	}
	if ends != want {
		return fmt.Errorf("%d ended events from %s to %s", ends, before.Status, after.Status)
	}
	return nil
}

func checkCompletions(before, after State, out *Output) error {
	stored := map[string]*CompletedOperation{}
	for _, op := range out.Operations {
		if op.Completed != nil {
			stored[op.ID] = op.Completed
		}
	}
	told := map[string]bool{}
	for _, ev := range out.Events {
		if ev.Kind != EventOperationCompleted {
			continue
		}
		if told[ev.OperationID] {
			return fmt.Errorf("operation %s completed twice", ev.OperationID)
		}
		told[ev.OperationID] = true
		done := stored[ev.OperationID]
		if done == nil || done.Success != ev.Success || done.Kind != ev.OperationKind || done.Error != ev.Error {
			return fmt.Errorf("operation %s: told %v, stored %v", ev.OperationID, ev, done)
		}
		if done.Success != (done.Error == nil) {
			return fmt.Errorf("operation %s: success %t with error %v", done.ID, done.Success, done.Error)
		}
		if after.LastCompleted != done {
			return fmt.Errorf("lastCompleted is %v, want %v", after.LastCompleted, done)
		}
	}
	if len(told) != len(stored) {
		return fmt.Errorf("%d outcomes stored, %d told", len(stored), len(told))
	}
	ran := before.Active != nil && (after.Active == nil || after.Active.ID != before.Active.ID)
	if ran && !told[before.Active.ID] {
		return fmt.Errorf("operation %s left without a completion", before.Active.ID)
	}
	if ran && after.BlockEnd != 0 {
		return fmt.Errorf("the completed operation keeps its block up to %d", after.BlockEnd)
	}
	return nil
}

func checkDurability(before, after State, out *Output) error {
	for _, ev := range out.Events {
		if ev.Kind.Durable() && !out.Durable {
			return fmt.Errorf("%s is told without being stored", ev.Kind)
		}
	}
	if !out.Durable {
		if len(out.Operations) > 0 || len(out.Drop) > 0 {
			return fmt.Errorf("operations change without a commit")
		}
		soft := cmpopts.IgnoreFields(Record{}, "LatestSeq", "BlockEnd")
		if diff := cmp.Diff(before.Record, after.Record, soft, byPointer); diff != "" {
			return fmt.Errorf("the record changes without a commit:\n%s", diff)
		}
		return nil
	}
	if after.Revision != before.Revision+1 || after.Instance != after.self {
		return fmt.Errorf("commit with revision %d after %d, instance %q", after.Revision, before.Revision, after.Instance)
	}
	return nil
}

// byPointer compares errors by identity: they are immutable.
var byPointer = cmp.Comparer(func(a, b *fault.Error) bool { return a == b })

// waiting lists who waits for an answer.
func waiting(s State) []CallerID {
	all := slices.Concat(s.resuming, s.turn.enders, s.turn.cancels)
	for _, c := range openCalls(s) {
		all = append(all, c.waiters...)
	}
	return all
}

// checkCallers checks that nobody is forgotten, asked for or answered twice.
func checkCallers(before State, in Input, after State, out *Output) error {
	asked := waiting(before)
	if c := CallerOf(in); c != 0 {
		asked = append(asked, c)
	}
	answered := waiting(after)
	for _, r := range out.Replies {
		answered = append(answered, r.Caller)
	}
	slices.Sort(asked)
	slices.Sort(answered)
	if !slices.Equal(asked, answered) {
		return fmt.Errorf("waited before: %v; answered or still waiting: %v", asked, answered)
	}
	return nil
}

// checkAfterEnded checks that an ended thread tells nothing but a resume and a
// late figure of usage.
func checkAfterEnded(before State, in Input, out *Output) error {
	if before.Status != Ended {
		return nil
	}
	_, resumed := in.(WorkspaceChecked)
	for _, ev := range out.Events {
		if ev.Kind != EventUsageUpdated && (!resumed || ev.Kind != EventStatusChanged || ev.Status != Idle) {
			return fmt.Errorf("%s is told by an ended thread", ev.Kind)
		}
	}
	return nil
}
