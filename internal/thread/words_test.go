package thread

import (
	"fmt"
	"testing"
)

func TestWordsRoundTrip(t *testing.T) {
	for _, s := range Statuses {
		if got, ok := ParseStatus(s.String()); !ok || got != s {
			t.Errorf("status %d reads back as %d from %q", s, got, s)
		}
	}
	for _, p := range Providers {
		if got, ok := ParseProvider(p.String()); !ok || got != p {
			t.Errorf("provider %d reads back as %d from %q", p, got, p)
		}
		if p.Name() == "" {
			t.Errorf("provider %s has no name", p)
		}
	}
	for _, e := range Efforts {
		if got, ok := ParseEffort(e.String()); !ok || got != e {
			t.Errorf("effort %d reads back as %d from %q", e, got, e)
		}
	}
	for _, p := range []Permission{PermitWorkspace, PermitReadOnly, PermitFull} {
		if got, ok := ParsePermission(p.String()); !ok || got != p {
			t.Errorf("permission %d reads back as %d from %q", p, got, p)
		}
	}
}

func TestUnknownWordsAreRefused(t *testing.T) {
	for _, w := range []string{"", " idle", "Idle", "IDLE", "starting", "failed", "nobody", "OpenCode", "medium", "readonly"} {
		if s, ok := ParseStatus(w); ok {
			t.Errorf("%q is status %s", w, s)
		}
		if p, ok := ParseProvider(w); ok {
			t.Errorf("%q is provider %s", w, p)
		}
		if e, ok := ParseEffort(w); ok {
			t.Errorf("%q is effort %s", w, e)
		}
		if p, ok := ParsePermission(w); ok {
			t.Errorf("%q is permission %s", w, p)
		}
	}
}

// The wire words and the stored numbers are contracts with clients and with
// databases that exist already.
func TestWordsAndNumbersNeverChange(t *testing.T) {
	tests := []struct {
		got    fmt.Stringer
		number uint8
		word   string
	}{
		{Idle, 1, "idle"}, {Running, 2, "running"}, {WaitingToolResult, 3, "waitingToolResult"},
		{Stopping, 4, "stopping"}, {Ended, 5, "ended"}, {Failed, 6, "error"},
		{User, 1, "user"}, {Prepare, 2, "prepare"},
		{Codex, 1, "codex"}, {Antigravity, 2, "antigravity"}, {OpenCode, 3, "opencode"},
		{Cursor, 4, "cursor"}, {Claude, 5, "claude"}, {Ollama, 6, "ollama"},
		{DefaultEffort, 1, "default"}, {LowEffort, 2, "low"}, {HighEffort, 3, "high"},
		{PermitWorkspace, 1, "workspace"}, {PermitReadOnly, 2, "read-only"}, {PermitFull, 3, "full"},
		{EventCreated, 1, "created"}, {EventStatusChanged, 2, "status_changed"}, {EventAssistantDelta, 3, "assistant_delta"},
		{EventAssistantMessage, 4, "assistant_message"}, {EventToolCall, 5, "tool_call"}, {EventToolResult, 6, "tool_result"},
		{EventProviderSessionIDUpdated, 7, "provider_session_id_updated"}, {EventUsageUpdated, 8, "usage_updated"},
		{EventOperationCompleted, 9, "operation_completed"}, {EventError, 10, "error"}, {EventEnded, 11, "ended"},
	}
	for _, tt := range tests {
		if got := fmt.Sprintf("%d %s", tt.got, tt.got); got != fmt.Sprintf("%d %s", tt.number, tt.word) {
			t.Errorf("%T: %s, want %d %s", tt.got, got, tt.number, tt.word)
		}
	}
}

func TestNumbersWithoutAWordAreSilent(t *testing.T) {
	for _, s := range []fmt.Stringer{Status(0), Status(7), Status(255), Provider(0), Provider(99), Effort(9), Permission(0), OperationKind(3), EventKind(0), EventKind(12)} {
		if s.String() != "" {
			t.Errorf("%T %d reads as %q", s, s, s)
		}
	}
}

func TestOnlyDeltasAreSoft(t *testing.T) {
	for k := EventCreated; k <= EventEnded; k++ {
		if k.Durable() != (k != EventAssistantDelta) {
			t.Errorf("%s: durable %t", k, k.Durable())
		}
	}
}

func TestInTurn(t *testing.T) {
	want := map[Status]bool{Running: true, WaitingToolResult: true, Stopping: true}
	for _, s := range Statuses {
		if s.InTurn() != want[s] {
			t.Errorf("%s: in a turn %t", s, s.InTurn())
		}
	}
}
