package lifecycle

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Subscribe opens a feed of the thread's events. The cut is taken at once, also
// of a thread that is still to be settled.
func (s *Service) Subscribe(ctx context.Context, c thread.Caller, threadID string, afterSeq *uint64, wake chan<- struct{}) (thread.Feed, error) {
	if s.closing.Load() {
		return nil, leaving()
	}
	a, first, err := s.find(ctx, threadID)
	if err != nil {
		return nil, err
	}
	if first {
		defer a.start() // behind the cut
	}
	if err := s.authorise(c, a); err != nil {
		s.registry.release(a)
		return nil, err
	}
	f, err := a.subscribe(afterSeq, wake) // takes over the reference
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Snapshot tells where the thread stands, settled.
func (s *Service) Snapshot(ctx context.Context, c thread.Caller, threadID string) (thread.Snapshot, error) {
	a, err := s.acquire(ctx, c, threadID)
	if err != nil {
		return thread.Snapshot{}, err
	}
	defer s.registry.release(a)
	if err := a.awaitSettled(ctx); err != nil {
		return thread.Snapshot{}, err
	}
	return a.ring.snapshot(), nil
}

// Prepare admits a preparation.
func (s *Service) Prepare(ctx context.Context, c thread.Caller, threadID string, operationID *string) (thread.Admission, error) {
	return s.admit(ctx, c, threadID, operationID, thread.Admit{Kind: thread.Prepare})
}

// SendText admits a user turn.
func (s *Service) SendText(ctx context.Context, c thread.Caller, threadID, message string, operationID *string) (thread.Admission, error) {
	return s.admit(ctx, c, threadID, operationID, thread.Admit{Kind: thread.User, Text: message})
}

func (s *Service) admit(ctx context.Context, c thread.Caller, threadID string, operationID *string, in thread.Admit) (thread.Admission, error) {
	a, err := s.acquire(ctx, c, threadID)
	if err != nil {
		return thread.Admission{}, err
	}
	defer s.registry.release(a)
	if in.OperationID, err = s.operationID(operationID); err != nil {
		return thread.Admission{}, err
	}
	in.Leaving = s.closing.Load()
	v, err := a.ask(ctx, func(id thread.CallerID) thread.Input {
		in.Caller = id
		return in
	})
	if err != nil {
		return thread.Admission{}, err
	}
	return v.(thread.Admission), nil
}

// operationID checks an id that a client chose, or makes one.
func (s *Service) operationID(chosen *string) (string, error) {
	if chosen == nil {
		var random [16]byte
		rand.Read(random[:])
		return fmt.Sprintf("operation_%d_%s", s.cfg.Now().UnixMilli(), hex.EncodeToString(random[:])), nil
	}
	id := *chosen
	if strings.TrimSpace(id) == "" {
		return "", fault.New(fault.InvalidInput, "An operationId must not be blank.").With("operationId", id).With("reason", "the id is blank")
	}
	if len(id) > thread.MaxOperationIDBytes {
		return "", fault.Newf(fault.InvalidInput, "An operationId has at most %d bytes; this one has %d.", thread.MaxOperationIDBytes, len(id)).
			With("operationId", id[:thread.MaxOperationIDBytes]).With("reason", "the id is too long")
	}
	return id, nil
}

// Cancel asks to cancel the active operation and returns when it is decided.
func (s *Service) Cancel(ctx context.Context, c thread.Caller, threadID string, operationID *string) (thread.Cancellation, error) {
	a, err := s.acquireForCommand(ctx, c, threadID)
	if err != nil {
		return thread.Cancellation{}, err
	}
	defer s.registry.release(a)
	var in thread.Cancel
	if operationID != nil {
		if in.OperationID, err = s.operationID(operationID); err != nil {
			return thread.Cancellation{}, err
		}
	}
	v, err := a.ask(ctx, func(id thread.CallerID) thread.Input {
		in.Caller = id
		return in
	})
	if err != nil {
		return thread.Cancellation{}, err
	}
	return v.(thread.Cancellation), nil
}

// End ends the thread. It returns when the end's events were written to every
// live feed, or when [Durations.Barrier] has passed.
func (s *Service) End(ctx context.Context, c thread.Caller, threadID string) error {
	a, err := s.acquireForCommand(ctx, c, threadID)
	if err != nil {
		return err
	}
	defer s.registry.release(a)
	s.cfg.Transfers.Abort(threadID)
	_, err = a.ask(ctx, func(id thread.CallerID) thread.Input { return thread.End{Caller: id} })
	s.afterAbort(a)
	if err != nil {
		return err
	}
	a.ring.awaitEnd(s.cfg.Durations.Barrier)
	return nil
}

// afterAbort lets transfers begin again, unless the thread has ended or will do
// so by itself, as after an end whose second half could not be recorded.
func (s *Service) afterAbort(a *actor) {
	switch a.ring.snapshot().Status {
	case thread.Ended:
		s.cfg.Transfers.Ended(a.id)
	case thread.Stopping:
	default:
		s.cfg.Transfers.Reopen(a.id)
	}
}

// Resume makes an ended thread idle, if its workspace can still be used.
func (s *Service) Resume(ctx context.Context, c thread.Caller, threadID string) (thread.Snapshot, error) {
	a, err := s.acquireForCommand(ctx, c, threadID)
	if err != nil {
		return thread.Snapshot{}, err
	}
	defer s.registry.release(a)
	v, err := a.ask(ctx, func(id thread.CallerID) thread.Input { return thread.Resume{Caller: id} })
	if err != nil {
		return thread.Snapshot{}, err
	}
	s.afterAbort(a)
	return v.(thread.Snapshot), nil
}

// Thread authorises a caller and describes the thread as it is now, settled.
func (s *Service) Thread(ctx context.Context, c thread.Caller, threadID string) (thread.Summary, error) {
	a, err := s.acquire(ctx, c, threadID)
	if err != nil {
		return thread.Summary{}, err
	}
	defer s.registry.release(a)
	if err := a.awaitSettled(ctx); err != nil {
		return thread.Summary{}, err
	}
	return a.ring.summary(), nil
}

// Stage remembers in the thread's record the temporary file of an upload; ""
// forgets it. It is durable before it returns.
func (s *Service) Stage(ctx context.Context, threadID, name string) error {
	a, err := s.open(ctx, threadID)
	if err != nil {
		return err
	}
	defer s.registry.release(a)
	_, err = a.ask(ctx, func(id thread.CallerID) thread.Input { return thread.Stage{Caller: id, Name: name} })
	return err
}

// Delete forgets an ended thread.
func (s *Service) Delete(ctx context.Context, c thread.Caller, threadID string) error {
	a, err := s.acquireForCommand(ctx, c, threadID)
	if err != nil {
		return err
	}
	defer s.registry.release(a)
	_, err = a.ask(ctx, func(id thread.CallerID) thread.Input { return thread.Delete{Caller: id} })
	return err
}

// acquireForCommand is acquire for requests that change a thread; a leaving
// daemon takes none.
func (s *Service) acquireForCommand(ctx context.Context, c thread.Caller, threadID string) (*actor, error) {
	if s.closing.Load() {
		return nil, leaving()
	}
	return s.acquire(ctx, c, threadID)
}

// List returns a page of threads. A caller that is not the operator sees its
// own only.
func (s *Service) List(ctx context.Context, c thread.Caller, q thread.ListQuery) (thread.Page, error) {
	if !c.Operator() {
		q.Owner = c.Origin
	}
	return s.cfg.Store.List(q)
}

// ReadEvents reads the journal of a thread that is settled.
func (s *Service) ReadEvents(ctx context.Context, c thread.Caller, threadID string, afterSeq uint64, limit int) (thread.EventPage, error) {
	a, err := s.acquire(ctx, c, threadID)
	if err != nil {
		return thread.EventPage{}, err
	}
	defer s.registry.release(a)
	if err := a.awaitSettled(ctx); err != nil {
		return thread.EventPage{}, err
	}
	through := a.ring.latest()
	page, err := s.cfg.Store.Events(threadID, afterSeq, through, thread.ClampLimit(limit), eventsBytes)
	if err != nil {
		return thread.EventPage{}, err
	}
	result := thread.EventPage{NextSeq: max(afterSeq, through), Truncated: page.TrimmedThrough > afterSeq}
	if page.More {
		result.NextSeq = max(afterSeq, page.TrimmedThrough) // retention may have overtaken the read
		if n := len(page.Events); n > 0 {
			result.NextSeq = page.Events[n-1].Seq
		}
	}
	for _, ev := range page.Events {
		read, err := s.withText(threadID, ev)
		if err != nil {
			return thread.EventPage{}, err
		}
		result.Events = append(result.Events, read)
	}
	return result, nil
}

// withText adds to the begin of a user operation the text that was sent.
func (s *Service) withText(threadID string, ev thread.Event) (thread.JournalEvent, error) {
	read := thread.JournalEvent{Event: ev}
	if ev.Kind != thread.EventStatusChanged || ev.Status != thread.Running || ev.OperationID == "" {
		return read, nil
	}
	op, found, err := s.cfg.Store.Operation(threadID, ev.OperationID)
	if err != nil {
		return read, err
	}
	if found && op.Kind == thread.User && op.AdmittedSeq == ev.Seq {
		read.Message, read.MessageTruncated = &op.Text, op.TextTruncated
	}
	return read, nil
}
