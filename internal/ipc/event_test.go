package ipc

import (
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func uitoa(n uint64) string { return strconv.FormatUint(n, 10) }

func decode(t testing.TB, line string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), into); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
}

func TestEventsOnTheWire(t *testing.T) {
	failed := fault.New(fault.ProviderTimeout, "It was silent.").With("b", 1).With("a", "<x>")
	for name, c := range map[string]struct {
		ev   thread.Event
		want string
	}{
		"created":               {thread.Event{Kind: thread.EventCreated}, `{"type":"created","seq":7,"threadId":"t1"}`},
		"ended":                 {thread.Event{Kind: thread.EventEnded}, `{"type":"ended","seq":7,"threadId":"t1"}`},
		"status":                {thread.Event{Kind: thread.EventStatusChanged, Status: thread.WaitingToolResult, OperationID: "o"}, `{"type":"status_changed","seq":7,"threadId":"t1","operationId":"o","status":"waitingToolResult"}`},
		"status without op":     {thread.Event{Kind: thread.EventStatusChanged, Status: thread.Failed}, `{"type":"status_changed","seq":7,"threadId":"t1","status":"error"}`},
		"delta":                 {thread.Event{Kind: thread.EventAssistantDelta, OperationID: "o", Text: "<b>&\u2028\"\n\x01"}, `{"type":"assistant_delta","seq":7,"threadId":"t1","operationId":"o","text":"<b>&` + "\u2028" + `\"\n\u0001"}`},
		"message":               {thread.Event{Kind: thread.EventAssistantMessage, OperationID: "o", Text: "hi"}, `{"type":"assistant_message","seq":7,"threadId":"t1","operationId":"o","text":"hi"}`},
		"part of a message":     {thread.Event{Kind: thread.EventAssistantMessage, OperationID: "o", Text: "hi", Part: thread.Part{Index: 0, Count: 2}}, `{"type":"assistant_message","seq":7,"threadId":"t1","operationId":"o","text":"hi","part":{"index":0,"count":2}}`},
		"tool call":             {thread.Event{Kind: thread.EventToolCall, OperationID: "o", RequestID: "r", ToolName: "n", Args: jsontext.Value(`{"a":1.0}`)}, `{"type":"tool_call","seq":7,"threadId":"t1","operationId":"o","requestId":"r","toolName":"n","args":{"a":1.0}}`},
		"tool result":           {thread.Event{Kind: thread.EventToolResult, OperationID: "o", RequestID: "r", ToolName: "n"}, `{"type":"tool_result","seq":7,"threadId":"t1","operationId":"o","requestId":"r","toolName":"n","result":null}`},
		"large tool result":     {thread.Event{Kind: thread.EventToolResult, OperationID: "o", RequestID: "r", ToolName: "n", Result: jsontext.Value(`"` + strings.Repeat("x", MaxResultBytes) + `"`)}, `{"type":"tool_result","seq":7,"threadId":"t1","operationId":"o","requestId":"r","toolName":"n","resultTruncated":true}`},
		"truncated tool result": {thread.Event{Kind: thread.EventToolResult, OperationID: "o", RequestID: "r", ToolName: "n", ResultTruncated: true}, `{"type":"tool_result","seq":7,"threadId":"t1","operationId":"o","requestId":"r","toolName":"n","resultTruncated":true}`},
		"session id":            {thread.Event{Kind: thread.EventProviderSessionIDUpdated, ProviderSessionID: "s"}, `{"type":"provider_session_id_updated","seq":7,"threadId":"t1","providerSessionId":"s"}`},
		"usage":                 {thread.Event{Kind: thread.EventUsageUpdated, TotalTokens: 1<<63 + 1}, `{"type":"usage_updated","seq":7,"threadId":"t1","totalTokens":9223372036854775809}`},
		"completed":             {thread.Event{Kind: thread.EventOperationCompleted, OperationID: "o", OperationKind: thread.User, Success: true}, `{"type":"operation_completed","seq":7,"threadId":"t1","operationId":"o","operationKind":"user","success":true}`},
		"completed badly":       {thread.Event{Kind: thread.EventOperationCompleted, OperationID: "o", OperationKind: thread.Prepare, Error: failed}, `{"type":"operation_completed","seq":7,"threadId":"t1","operationId":"o","operationKind":"prepare","success":false,"error":{"code":"PROVIDER_TIMEOUT","message":"It was silent.","details":{"a":"<x>","b":1}}}`},
		"provider error":        {thread.Event{Kind: thread.EventError, OperationID: "o", Source: thread.OpenCode, Error: fault.New(fault.ProviderTimeout, "m")}, `{"type":"error","seq":7,"threadId":"t1","operationId":"o","source":"provider","provider":"opencode","error":{"code":"PROVIDER_TIMEOUT","message":"m"}}`},
		"core error":            {thread.Event{Kind: thread.EventError, OperationID: "o", Error: fault.New(fault.StorageFull, "")}, `{"type":"error","seq":7,"threadId":"t1","operationId":"o","source":"core","error":{"code":"STORAGE_FULL","message":"The disk has no room; nothing was recorded."}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c.ev.Seq = 7
			got := string(EncodeEvent(nil, "t1", &c.ev))
			want := `{"type":"thread_event","event":` + c.want + "}\n"
			if got != want {
				t.Errorf("got  %swant %s", got, want)
			}
			var told struct {
				Event Event `json:"event"`
			}
			decode(t, got, &told)
		})
	}
}

func TestEncodingADeltaAllocatesNothing(t *testing.T) {
	ev := delta("some words")
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = EncodeEvent(buf[:0], "t0123456789abcdef", &ev) }); n != 0 {
		t.Errorf("%v allocations a delta", n)
	}
}
