package ipc

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// threadPayload is the payload of requests that only name a thread, and the
// part that the payloads of all others to a thread begin with.
type threadPayload struct {
	ThreadID *string `json:"threadId"`
}

func (p *threadPayload) check() error {
	if p.ThreadID == nil {
		return missing("threadId")
	}
	return nil
}

// thread returns the thread that a payload names, once it was checked.
func (p *threadPayload) thread() string { return *p.ThreadID }

func threadSnapshot(ctx context.Context, c *call, p *threadPayload, dst []byte) ([]byte, error) {
	s, err := c.server.threads.Snapshot(ctx, c.caller, *p.ThreadID)
	if err != nil {
		return nil, err
	}
	return appendSnapshot(dst, &s), nil
}

func endThread(ctx context.Context, c *call, p *threadPayload, dst []byte) ([]byte, error) {
	if err := c.server.threads.End(ctx, c.caller, *p.ThreadID); err != nil {
		return nil, err
	}
	return append(dst, "{}"...), nil
}

func resumeThread(ctx context.Context, c *call, p *threadPayload, dst []byte) ([]byte, error) {
	s, err := c.server.threads.Resume(ctx, c.caller, *p.ThreadID)
	if err != nil {
		return nil, err
	}
	dst = append(dst, `{"snapshot":`...)
	return append(appendSnapshot(dst, &s), '}'), nil
}

func deleteThread(ctx context.Context, c *call, p *threadPayload, dst []byte) ([]byte, error) {
	if err := c.server.threads.Delete(ctx, c.caller, *p.ThreadID); err != nil {
		return nil, err
	}
	return append(dst, "{}"...), nil
}

// subscribePayload is the payload of subscribe_thread.
type subscribePayload struct {
	threadPayload
	AfterSeq *uint64 `json:"afterSeq"`
}

// subscribeThread takes the cut now; the feed starts to flow when the answer
// was written.
func subscribeThread(ctx context.Context, c *call, p *subscribePayload, dst []byte) ([]byte, error) {
	id := *p.ThreadID
	if !c.subs.promise(id) {
		return nil, fault.Newf(fault.Overloaded, "A connection may have %d subscriptions.", MaxSubscriptions).With("threadId", id)
	}
	var feed thread.Feed
	defer func() {
		if feed == nil { // refused, or a panic
			c.subs.forgo()
		}
	}()
	feed, err := c.server.threads.Subscribe(ctx, c.caller, id, p.AfterSeq, c.subs.wake)
	if err != nil {
		return nil, err
	}
	// An older subscription of the thread goes before the answer, so that none
	// of its events can follow the snapshot that already tells of them.
	c.subs.remove(id)
	c.answered = func(written bool) {
		if !written {
			c.subs.forgo()
			feed.Close()
			return
		}
		c.subs.add(id, feed)
	}
	snapshot := feed.Snapshot()
	dst = append(dst, `{"subscribed":true,"snapshot":`...)
	dst = appendSnapshot(dst, &snapshot)
	if replay := feed.Replay(); replay != nil {
		dst = appendName(dst, "replay")
		dst = appendReplay(dst, replay)
	}
	return append(dst, '}'), nil
}

func unsubscribeThread(ctx context.Context, c *call, p *threadPayload, dst []byte) ([]byte, error) {
	if c.subs.remove(*p.ThreadID) {
		return append(dst, "{}"...), nil
	}
	// Nothing to remove, but whether the caller may name this thread at all is
	// answered as everywhere else.
	if _, err := c.server.threads.Snapshot(ctx, c.caller, *p.ThreadID); err != nil {
		return nil, err
	}
	return append(dst, "{}"...), nil
}

// listPayload is the payload of list_threads.
type listPayload struct {
	Status *string `json:"status"`
	Limit  *uint64 `json:"limit"`
	After  *string `json:"after"`
}

func (p *listPayload) check() error {
	if p.Status == nil {
		return nil
	}
	if _, ok := thread.ParseStatus(*p.Status); !ok {
		return fmt.Errorf("status %q is not known", cutText(*p.Status, 64))
	}
	return nil
}

// listThreads answers as many threads as fit into one line and says where the
// next page starts.
func listThreads(ctx context.Context, c *call, p *listPayload, dst []byte) ([]byte, error) {
	q := thread.ListQuery{Limit: limitOf(p.Limit), Owner: c.caller.Origin}
	if c.caller.OriginStated && c.caller.Origin == "" {
		return nil, fault.New(fault.ThreadAccessDenied, "The callerOrigin is not an origin.")
	}
	if p.Status != nil {
		q.Status, _ = thread.ParseStatus(*p.Status)
	}
	if p.After != nil {
		q.After = *p.After
	}
	page, err := c.server.threads.List(ctx, c.caller, q)
	if err != nil {
		return nil, err
	}
	next := page.Next
	dst = append(dst, `{"threads":[`...)
	for i := range page.Threads {
		before := len(dst)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendSummary(dst, &page.Threads[i])
		if len(dst) > listRoom && i > 0 {
			dst, next = dst[:before], page.Threads[i-1].ThreadID
			break
		}
	}
	dst = append(dst, ']')
	if next != "" {
		dst = appendMember(dst, "next", next)
	}
	return append(dst, '}'), nil
}

// listRoom is how long an answer may be with its list, so that what follows the
// list still fits.
const listRoom = MaxOutLineBytes - 1024

// limitOf is the limit that counts for one on the wire, which may be left out.
func limitOf(limit *uint64) int {
	if limit == nil {
		return thread.DefaultListLimit
	}
	return thread.ClampLimit(int(min(*limit, thread.MaxListLimit)))
}

// readPayload is the payload of read_events.
type readPayload struct {
	threadPayload
	AfterSeq *uint64 `json:"afterSeq"`
	Limit    *uint64 `json:"limit"`
}

// readEvents answers as many events as fit into one line; nextSeq is where the
// next request goes on.
func readEvents(ctx context.Context, c *call, p *readPayload, dst []byte) ([]byte, error) {
	var after uint64
	if p.AfterSeq != nil {
		after = *p.AfterSeq
	}
	page, err := c.server.threads.ReadEvents(ctx, c.caller, *p.ThreadID, after, limitOf(p.Limit))
	if err != nil {
		return nil, err
	}
	next := page.NextSeq
	dst = append(dst, `{"events":[`...)
	for i := range page.Events {
		before := len(dst)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJournalEvent(dst, *p.ThreadID, &page.Events[i])
		if len(dst) > listRoom && i > 0 {
			dst, next = dst[:before], page.Events[i-1].Seq
			break
		}
	}
	dst = append(dst, `],"nextSeq":`...)
	dst = strconv.AppendUint(dst, next, 10)
	dst = appendBool(dst, "truncated", page.Truncated)
	return append(dst, '}'), nil
}
