package store

import (
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Flags of a stored event, the third byte of its value. Retention reads
// flagGrouped without the rest.
const (
	flagGrouped         = 1 << 0
	flagSuccess         = 1 << 1
	flagResultTruncated = 1 << 2

	offEventFlags    = 2
	eventHeaderBytes = 3
)

func (e *encoder) event(ev *thread.Event) {
	var flags byte
	if ev.Grouped {
		flags |= flagGrouped
	}
	if ev.Success {
		flags |= flagSuccess
	}
	if ev.ResultTruncated {
		flags |= flagResultTruncated
	}
	e.byte(valueVersion)
	e.byte(byte(ev.Kind))
	e.byte(flags)

	e.string(ev.OperationID)
	e.byte(byte(ev.Status))
	e.string(ev.Text)
	e.uint(uint64(ev.Part.Index))
	e.uint(uint64(ev.Part.Count))
	e.string(ev.RequestID)
	e.string(ev.ToolName)
	e.bytes(ev.Args)
	e.bytes(ev.Result)
	e.string(ev.ProviderSessionID)
	e.uint(ev.TotalTokens)
	e.byte(byte(ev.OperationKind))
	e.byte(byte(ev.Source))
	e.fault(ev.Error)
}

func decodeEvent(seq uint64, v []byte) (thread.Event, error) {
	d := decoder{b: v}
	d.version()
	ev := thread.Event{Seq: seq, Kind: thread.EventKind(d.byte())}
	flags := d.byte()
	ev.Grouped = flags&flagGrouped != 0
	ev.Success = flags&flagSuccess != 0
	ev.ResultTruncated = flags&flagResultTruncated != 0

	ev.OperationID = d.string()
	ev.Status = thread.Status(d.byte())
	ev.Text = d.string()
	ev.Part.Index = int(d.uint())
	ev.Part.Count = int(d.uint())
	ev.RequestID = d.string()
	ev.ToolName = d.string()
	ev.Args = d.raw()
	ev.Result = d.raw()
	ev.ProviderSessionID = d.string()
	ev.TotalTokens = d.uint()
	ev.OperationKind = thread.OperationKind(d.byte())
	ev.Source = thread.Provider(d.byte())
	ev.Error = d.fault()
	return ev, d.end()
}

// grouped reports whether the event after this one belongs to the same group.
func grouped(v []byte) bool {
	return len(v) >= eventHeaderBytes && v[offEventFlags]&flagGrouped != 0
}
