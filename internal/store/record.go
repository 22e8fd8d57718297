package store

import (
	"bytes"
	"encoding/binary"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// A record's value begins with a header of fixed size, so that the committer
// and scans read and write what they need without the rest:
//
//	0   version
//	1   status
//	2   revision        uint64 BE
//	10  latest sequence uint64 BE
//	18  updated         int64 BE, nanoseconds
//	26  journal events  uint32 BE
//	30  journal bytes   uint64 BE, keys and values
//	38  trimmed through uint64 BE
//	46  operations      uint16 BE
const (
	offVersion    = 0
	offStatus     = 1
	offRevision   = 2
	offLatest     = 10
	offUpdated    = 18
	offEvents     = 26
	offBytes      = 30
	offTrimmed    = 38
	offOperations = 46
	headerBytes   = 48
)

// header is the part of a stored record that the store reads itself.
type header struct {
	status    thread.Status
	revision  uint64
	latestSeq uint64
	updated   int64 // nanoseconds since 1970
	counters
}

// counters tell what is stored beside a record. The store keeps them; the
// record's writer does not know them.
type counters struct {
	events     uint32 // in the journal
	bytes      uint64 // of the journal, keys and values
	trimmed    uint64 // sequence number of the last event that retention removed
	operations uint16
}

func decodeHeader(v []byte) (header, error) {
	if len(v) < headerBytes || v[offVersion] != valueVersion {
		return header{}, errDamaged
	}
	return header{
		status:    thread.Status(v[offStatus]),
		revision:  binary.BigEndian.Uint64(v[offRevision:]),
		latestSeq: binary.BigEndian.Uint64(v[offLatest:]),
		updated:   int64(binary.BigEndian.Uint64(v[offUpdated:])),
		counters: counters{
			events:     binary.BigEndian.Uint32(v[offEvents:]),
			bytes:      binary.BigEndian.Uint64(v[offBytes:]),
			trimmed:    binary.BigEndian.Uint64(v[offTrimmed:]),
			operations: binary.BigEndian.Uint16(v[offOperations:]),
		},
	}, nil
}

// put writes the counters into the header of a value.
func (c counters) put(v []byte) {
	binary.BigEndian.PutUint32(v[offEvents:], c.events)
	binary.BigEndian.PutUint64(v[offBytes:], c.bytes)
	binary.BigEndian.PutUint64(v[offTrimmed:], c.trimmed)
	binary.BigEndian.PutUint16(v[offOperations:], c.operations)
}

// record appends a record's value with empty counters. What a list shows comes
// first.
func (e *encoder) record(r *thread.Record) {
	e.byte(valueVersion)
	e.byte(byte(r.Status))
	e.fixed(r.Revision)
	e.fixed(r.LatestSeq)
	e.fixed(uint64(nanoseconds(r.UpdatedAt)))
	e.b = append(e.b, make([]byte, headerBytes-offEvents)...)

	e.string(r.Instance)
	e.byte(byte(r.Provider))
	e.time(r.CreatedAt)
	e.string(r.Owner)
	e.string(r.Workspace.Path)
	e.bool(r.Usage.Known)
	e.uint(r.Usage.TotalTokens)

	e.byte(byte(r.Effort))
	e.uint(uint64(len(r.EffortArgs)))
	for _, arg := range r.EffortArgs {
		e.string(arg)
	}
	e.bool(r.Workspace.Managed)
	e.string(r.Workspace.Instance)
	e.bool(r.AutoEnd)
	e.uint(r.BlockEnd)

	e.string(r.Session.ID)
	e.bool(r.Session.Resumable)
	e.bool(r.Session.Instructed)
	e.bool(r.Session.UserTurn)
	e.uint(r.Session.UsageBase)
	e.bool(r.Prepared)

	e.active(r.Active)
	e.completed(r.LastCompleted)
	e.string(r.StagedUpload)
}

func (e *encoder) active(a *thread.ActiveOperation) {
	if a == nil {
		e.byte(0)
		return
	}
	e.byte(1)
	e.string(a.ID)
	e.byte(byte(a.Kind))
	e.time(a.StartedAt)
}

func (d *decoder) active() *thread.ActiveOperation {
	if !d.bool() {
		return nil
	}
	return &thread.ActiveOperation{ID: d.string(), Kind: thread.OperationKind(d.byte()), StartedAt: d.time()}
}

func decodeRecord(id string, v []byte) (thread.Record, error) {
	h, err := decodeHeader(v)
	if err != nil {
		return thread.Record{}, err
	}
	d := decoder{b: v[headerBytes:]}
	r := thread.Record{ID: id, Status: h.status, Revision: h.revision, LatestSeq: h.latestSeq, UpdatedAt: timeOf(h.updated)}
	r.Instance = d.string()
	r.Provider = thread.Provider(d.byte())
	r.CreatedAt = d.time()
	r.Owner = d.string()
	r.Workspace.Path = d.string()
	r.Usage.Known = d.bool()
	r.Usage.TotalTokens = d.uint()

	r.Effort = thread.Effort(d.byte())
	if n := d.count(); n > 0 {
		r.EffortArgs = make([]string, n)
	}
	for i := range r.EffortArgs {
		r.EffortArgs[i] = d.string()
	}
	r.Workspace.Managed = d.bool()
	r.Workspace.Instance = d.string()
	r.AutoEnd = d.bool()
	r.BlockEnd = d.uint()

	r.Session.ID = d.string()
	r.Session.Resumable = d.bool()
	r.Session.Instructed = d.bool()
	r.Session.UserTurn = d.bool()
	r.Session.UsageBase = d.uint()
	r.Prepared = d.bool()

	r.Active = d.active()
	r.LastCompleted = d.completed()
	r.StagedUpload = d.string()
	return r, d.end()
}

// decodeSummary reads the part of a record that a list shows.
func decodeSummary(id []byte, v []byte) (thread.Summary, error) {
	h, err := decodeHeader(v)
	if err != nil {
		return thread.Summary{}, err
	}
	d := decoder{b: v[headerBytes:]}
	d.take(d.uint()) // instance
	s := thread.Summary{ThreadID: string(id), Status: h.status, UpdatedAt: timeOf(h.updated)}
	s.Provider = thread.Provider(d.byte())
	s.CreatedAt = d.time()
	s.Owner = d.string()
	s.WorkspacePath = d.string()
	s.Usage.Known = d.bool()
	s.Usage.TotalTokens = d.uint()
	return s, d.err
}

// writtenBy reports whether a stored record is the given revision of the given
// instance, or a later one of it.
func writtenBy(v []byte, instance string, revision uint64) bool {
	h, err := decodeHeader(v)
	if err != nil || h.revision < revision {
		return false
	}
	d := decoder{b: v[headerBytes:]}
	return string(d.take(d.uint())) == instance && d.err == nil
}

// sameRecord reports whether two values hold the same record, whatever their
// counters.
func sameRecord(a, b []byte) bool {
	return len(a) == len(b) && len(a) >= headerBytes &&
		bytes.Equal(a[:offEvents], b[:offEvents]) && bytes.Equal(a[headerBytes:], b[headerBytes:])
}

// summaryInstance returns the instance that wrote a stored record, as memory of
// the database.
func summaryInstance(v []byte) []byte {
	d := decoder{b: v[headerBytes:]}
	return d.take(d.uint())
}

// summaryOwner returns a stored record's owner, as memory of the database.
func summaryOwner(v []byte) []byte {
	d := decoder{b: v[headerBytes:]}
	d.take(d.uint()) // instance
	d.byte()         // provider
	d.uint()         // created
	return d.take(d.uint())
}
