package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

// eventLimit is how long the demo waits for an event.
const eventLimit = 20 * time.Second

// follow subscribes from a cursor on.
func (d *demo) follow(ctx context.Context, after *uint64) (err error) {
	d.sub, err = subscribe(ctx, d.client, d.thread, after)
	return err
}

// unfollow ends the subscription, if there is one.
func (d *demo) unfollow() {
	if d.sub != nil {
		d.sub.Close()
	}
	d.sub = nil
}

// until returns the events up to the first one that matches. Each must have a
// greater number than the one before.
func (d *demo) until(ctx context.Context, match func(ipc.Event) bool) ([]ipc.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, eventLimit)
	defer cancel()
	var events []ipc.Event
	for {
		select {
		case ev, ok := <-d.sub.events:
			if !ok {
				return nil, d.sub.err
			}
			if ev.Seq <= d.seen {
				return nil, fmt.Errorf("event %d came after event %d", ev.Seq, d.seen)
			}
			d.seen = ev.Seq
			events = append(events, ev)
			if match(ev) {
				return events, nil
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("an event did not come in %v; until then: %s", eventLimit, outline(events))
		}
	}
}

func completed(ev ipc.Event) bool { return ev.Type == "operation_completed" }

func isDelta(ev ipc.Event) bool { return ev.Type == "assistant_delta" }

// statusIs matches a change to a status that belongs to no operation.
func statusIs(status string) func(ipc.Event) bool {
	return func(ev ipc.Event) bool {
		return ev.Type == "status_changed" && ev.Status == status && ev.OperationID == ""
	}
}

// wantOutline checks the order of events.
func wantOutline(events []ipc.Event, want string) error {
	if got := outline(events); got != want {
		return fmt.Errorf("the events are %q and not %q", got, want)
	}
	return nil
}

// outline writes the order of events without text, usage and session ids, which
// may come in between.
func outline(events []ipc.Event) string {
	var words []string
	for _, ev := range events {
		switch ev.Type {
		case "created", "ended", "tool_call", "tool_result":
			words = append(words, ev.Type)
		case "status_changed":
			words = append(words, statusWord(ev))
		case "operation_completed":
			words = append(words, completion(ev))
		case "error":
			words = append(words, "error "+string(ev.Error.Code))
		}
	}
	return strings.Join(words, " → ")
}

func statusWord(ev ipc.Event) string {
	switch {
	case ev.OperationID != "":
		return ev.Status + "(op)"
	case ev.Status == "ended":
		return "status ended" // the event ended is another one
	}
	return ev.Status
}

func completion(ev ipc.Event) string {
	if ev.Error == nil {
		return "completed"
	}
	return "completed " + string(ev.Error.Code)
}

// spoken returns the complete messages among events.
func spoken(events []ipc.Event) string {
	var b strings.Builder
	for _, ev := range events {
		if ev.Type == "assistant_message" {
			b.WriteString(ev.Text)
		}
	}
	return b.String()
}
