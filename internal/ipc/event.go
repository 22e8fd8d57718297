package ipc

import (
	"strconv"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// EncodeEvent appends the line that tells a client of an event, with its LF:
//
//	{"type":"thread_event","event":{"type":…,"seq":…,"threadId":…,…}}
//
// Text is the caller's to cut: an event whose text was cut as the protocol says
// fits into one line.
func EncodeEvent(dst []byte, threadID string, ev *thread.Event) []byte {
	dst = append(dst, `{"type":"thread_event","event":{`...)
	dst = appendEventMembers(dst, threadID, ev)
	return append(dst, "}}\n"...)
}

// appendJournalEvent appends an event as read_events tells it.
func appendJournalEvent(dst []byte, threadID string, ev *thread.JournalEvent) []byte {
	dst = append(dst, '{')
	dst = appendEventMembers(dst, threadID, &ev.Event)
	if ev.Message != nil {
		dst = appendMember(dst, "message", *ev.Message)
	}
	if ev.MessageTruncated {
		dst = appendTrue(dst, "messageTruncated")
	}
	return append(dst, '}')
}

func appendEventMembers(dst []byte, threadID string, ev *thread.Event) []byte {
	dst = append(dst, `"type":"`...)
	dst = append(dst, ev.Kind.String()...)
	dst = append(dst, `","seq":`...)
	dst = strconv.AppendUint(dst, ev.Seq, 10)
	dst = appendMember(dst, "threadId", threadID)
	if ev.OperationID != "" {
		dst = appendMember(dst, "operationId", ev.OperationID)
	}
	switch ev.Kind {
	case thread.EventStatusChanged:
		dst = appendMember(dst, "status", ev.Status.String())
	case thread.EventAssistantDelta:
		dst = appendMember(dst, "text", ev.Text)
	case thread.EventAssistantMessage:
		dst = appendMember(dst, "text", ev.Text)
		dst = appendPart(dst, ev.Part)
	case thread.EventToolCall:
		dst = appendMember(dst, "requestId", ev.RequestID)
		dst = appendMember(dst, "toolName", ev.ToolName)
		dst = appendRaw(dst, "args", ev.Args)
	case thread.EventToolResult:
		dst = appendMember(dst, "requestId", ev.RequestID)
		dst = appendMember(dst, "toolName", ev.ToolName)
		dst = appendToolResult(dst, ev)
	case thread.EventProviderSessionIDUpdated:
		dst = appendMember(dst, "providerSessionId", ev.ProviderSessionID)
	case thread.EventUsageUpdated:
		dst = appendUint(dst, "totalTokens", ev.TotalTokens)
	case thread.EventOperationCompleted:
		dst = appendMember(dst, "operationKind", ev.OperationKind.String())
		dst = appendBool(dst, "success", ev.Success)
		dst = appendEventError(dst, ev)
	case thread.EventError:
		dst = appendSource(dst, ev.Source)
		dst = appendEventError(dst, ev)
	}
	return dst
}

func appendPart(dst []byte, p thread.Part) []byte {
	if p.Count == 0 {
		return dst
	}
	dst = append(dst, `,"part":{"index":`...)
	dst = strconv.AppendInt(dst, int64(p.Index), 10)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(p.Count), 10)
	return append(dst, '}')
}

func appendToolResult(dst []byte, ev *thread.Event) []byte {
	if ev.ResultTruncated || len(ev.Result) > MaxResultBytes {
		return appendTrue(dst, "resultTruncated")
	}
	return appendRaw(dst, "result", ev.Result)
}

func appendSource(dst []byte, p thread.Provider) []byte {
	if p == 0 {
		return appendMember(dst, "source", "core")
	}
	dst = appendMember(dst, "source", "provider")
	return appendMember(dst, "provider", p.String())
}

func appendEventError(dst []byte, ev *thread.Event) []byte {
	if ev.Error == nil {
		return dst
	}
	dst = appendName(dst, "error")
	return appendError(dst, ev.Error)
}
