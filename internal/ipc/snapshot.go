package ipc

import (
	"strconv"

	"github.com/pedelec/pedelec-core/internal/thread"
)

func appendSnapshot(dst []byte, s *thread.Snapshot) []byte {
	dst = append(dst, `{"threadId":`...)
	dst = appendString(dst, s.ThreadID)
	dst = appendMember(dst, "status", s.Status.String())
	dst = appendUint(dst, "latestSeq", s.LatestSeq)
	dst = appendUsage(dst, s.Usage)
	if a := s.Active; a != nil {
		dst = append(dst, `,"activeOperation":{"operationId":`...)
		dst = appendString(dst, a.ID)
		dst = appendMember(dst, "operationKind", a.Kind.String())
		dst = appendTime(dst, "startedAt", a.StartedAt)
		dst = append(dst, '}')
	}
	if o := s.LastCompleted; o != nil {
		dst = append(dst, `,"lastCompletedOperation":{"operationId":`...)
		dst = appendString(dst, o.ID)
		dst = appendMember(dst, "operationKind", o.Kind.String())
		dst = appendBool(dst, "success", o.Success)
		if o.Error != nil {
			dst = appendName(dst, "error")
			dst = appendError(dst, o.Error)
		}
		dst = appendTime(dst, "completedAt", o.CompletedAt)
		dst = append(dst, '}')
	}
	if p := s.PendingTool; p != nil {
		dst = append(dst, `,"pendingToolRequest":{"requestId":`...)
		dst = appendString(dst, p.RequestID)
		dst = appendMember(dst, "threadId", s.ThreadID)
		dst = appendMember(dst, "operationId", p.OperationID)
		dst = appendMember(dst, "toolName", p.ToolName)
		dst = appendRaw(dst, "args", p.Args)
		dst = appendTime(dst, "createdAt", p.CreatedAt)
		dst = appendUint(dst, "timeoutMs", uint64(p.Timeout.Milliseconds()))
		dst = append(dst, '}')
	}
	if s.ActiveMessage != "" {
		dst = append(dst, `,"activeMessage":{"text":`...)
		dst = appendString(dst, s.ActiveMessage)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func appendUsage(dst []byte, u thread.Usage) []byte {
	if !u.Known {
		return dst
	}
	dst = append(dst, `,"usage":{"totalTokens":`...)
	dst = strconv.AppendUint(dst, u.TotalTokens, 10)
	return append(dst, '}')
}

func appendReplay(dst []byte, r *thread.Replay) []byte {
	dst = append(dst, `{"fromSeq":`...)
	dst = strconv.AppendUint(dst, r.FromSeq, 10)
	dst = appendUint(dst, "toSeq", r.ToSeq)
	dst = appendBool(dst, "truncated", r.Truncated)
	dst = appendBool(dst, "deltasOmitted", r.DeltasOmitted)
	return append(dst, '}')
}

func appendSummary(dst []byte, s *thread.Summary) []byte {
	dst = append(dst, `{"threadId":`...)
	dst = appendString(dst, s.ThreadID)
	dst = appendMember(dst, "provider", s.Provider.String())
	dst = appendMember(dst, "status", s.Status.String())
	dst = appendTime(dst, "createdAt", s.CreatedAt)
	dst = appendTime(dst, "updatedAt", s.UpdatedAt)
	if s.Owner != "" {
		dst = appendMember(dst, "ownerOrigin", s.Owner)
	}
	dst = appendMember(dst, "workspacePath", s.WorkspacePath)
	dst = appendUsage(dst, s.Usage)
	return append(dst, '}')
}
