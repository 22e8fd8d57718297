package store

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// valueVersion is the first byte of every stored value of a thread.
const valueVersion = 1

// errDamaged is what a page, a value or a whole file that cannot be read gives.
var errDamaged = errors.New("damaged data")

// encoder appends fields to a value. Numbers are varints, strings carry their
// length; fields have neither names nor types, their order is the format.
type encoder struct{ b []byte }

func (e *encoder) byte(v byte)     { e.b = append(e.b, v) }
func (e *encoder) uint(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) fixed(v uint64)  { e.b = binary.BigEndian.AppendUint64(e.b, v) }
func (e *encoder) string(v string) { e.uint(uint64(len(v))); e.b = append(e.b, v...) }
func (e *encoder) bytes(v []byte)  { e.uint(uint64(len(v))); e.b = append(e.b, v...) }

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
		return
	}
	e.byte(0)
}

// time writes nanoseconds since 1970 in UTC; 0 is the zero time.
func (e *encoder) time(t time.Time) { e.uint(uint64(nanoseconds(t))) }

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// fault writes what clients may see of an error: its cause and operation are
// for logs.
func (e *encoder) fault(err *fault.Error) {
	if err == nil {
		e.byte(0)
		return
	}
	e.byte(1)
	e.string(string(err.Code))
	e.string(err.Msg)
	e.bytes(encodeDetails(err.Details))
}

// encodeDetails never fails: what a program wanted to add to an error must not
// keep the error itself from being recorded.
func encodeDetails(details map[string]any) []byte {
	if len(details) == 0 {
		return nil
	}
	b, err := json.Marshal(details, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		b, _ = json.Marshal(map[string]any{"detailsLost": err.Error()}, jsontext.AllowInvalidUTF8(true))
	}
	return b
}

func (e *encoder) completed(c *thread.CompletedOperation) {
	if c == nil {
		e.byte(0)
		return
	}
	e.byte(1)
	e.string(c.ID)
	e.byte(byte(c.Kind))
	e.bool(c.Success)
	e.fault(c.Error)
	e.time(c.CompletedAt)
}

// decoder reads what encoder wrote. The first error stays; every read after it
// gives zero. Nothing that it returns points into the value, which may be
// memory of the database.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() {
	d.err, d.b = errDamaged, nil
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) bool() bool { return d.byte() != 0 }

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) fixed() uint64 {
	if v := d.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (d *decoder) string() string { return string(d.take(d.uint())) }

// raw returns a copy; nil when there are no bytes.
func (d *decoder) raw() []byte {
	v := d.take(d.uint())
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

// count returns the length of a list whose entries take at least one byte each,
// so that damaged bytes cannot ask for more memory than the value has.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) time() time.Time { return timeOf(int64(d.uint())) }

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func (d *decoder) fault() *fault.Error {
	if !d.bool() {
		return nil
	}
	err := &fault.Error{Code: fault.Code(d.string()), Msg: d.string()}
	details := d.take(d.uint())
	if len(details) == 0 {
		return err
	}
	if json.Unmarshal(details, &err.Details, jsontext.AllowInvalidUTF8(true)) != nil {
		d.fail()
	}
	return err
}

func (d *decoder) completed() *thread.CompletedOperation {
	if !d.bool() {
		return nil
	}
	return &thread.CompletedOperation{
		ID:          d.string(),
		Kind:        thread.OperationKind(d.byte()),
		Success:     d.bool(),
		Error:       d.fault(),
		CompletedAt: d.time(),
	}
}

// version reads the first byte of a value.
func (d *decoder) version() {
	if d.byte() != valueVersion {
		d.fail()
	}
}

// end returns the decoder's error; bytes that nobody asked for are one.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) != 0 {
		d.fail()
	}
	return d.err
}
