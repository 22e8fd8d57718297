package ipc

import (
	"context"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Inspector makes links to the operator's page.
type Inspector interface {
	// NewLink returns a URL that lets one browser in, until it expires.
	NewLink() (url string, expires time.Time)
}

// InspectLink is the result of create_inspect_link.
type InspectLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func createInspectLink(_ context.Context, c *call, dst []byte) ([]byte, error) {
	if c.server.config.Inspector == nil {
		return nil, fault.New(fault.CoreRuntimeUnavailable, "This daemon has no inspector.")
	}
	url, expires := c.server.config.Inspector.NewLink()
	return appendJSON(dst, InspectLink{URL: url, ExpiresAt: expires.UTC()})
}

// EncodeSnapshot appends a snapshot as clients are told it.
func EncodeSnapshot(dst []byte, s *thread.Snapshot) []byte { return appendSnapshot(dst, s) }

// EncodeSummary appends a row of list_threads.
func EncodeSummary(dst []byte, s *thread.Summary) []byte { return appendSummary(dst, s) }

// EncodeJournalEvent appends an event as read_events tells it.
func EncodeJournalEvent(dst []byte, threadID string, ev *thread.JournalEvent) []byte {
	return appendJournalEvent(dst, threadID, ev)
}

// EncodeRuntime appends an entry of list_runtimes.
func EncodeRuntime(dst []byte, r *thread.RuntimeInfo) []byte {
	out, err := appendJSON(dst, runtimeInfo(r))
	if err != nil { // nothing in it could fail
		return append(dst, "{}"...)
	}
	return out
}
