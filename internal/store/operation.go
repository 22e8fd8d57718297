package store

import (
	"encoding/binary"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// Flags and places in a stored operation. What retention and Load read comes
// first, at fixed places; the text comes last.
//
//	0  version
//	1  flags
//	2  kind
//	3  admitted at sequence number, uint64 BE
//	11 hash of the text
const (
	flagCompleted       = 1 << 0
	flagAlreadyPrepared = 1 << 1
	flagTextTruncated   = 1 << 2

	offOperationFlags    = 1
	offOperationAdmitted = 3
	operationHeaderBytes = 11
)

func (e *encoder) operation(op *thread.Operation) {
	var flags byte
	if op.Completed != nil {
		flags |= flagCompleted
	}
	if op.AlreadyPrepared {
		flags |= flagAlreadyPrepared
	}
	if op.TextTruncated {
		flags |= flagTextTruncated
	}
	e.byte(valueVersion)
	e.byte(flags)
	e.byte(byte(op.Kind))
	e.fixed(op.AdmittedSeq)
	e.b = append(e.b, op.Hash[:]...)

	e.time(op.StartedAt)
	e.completed(op.Completed)
	e.string(op.Text)
}

func (d *decoder) operationHead() thread.Operation {
	d.version()
	flags := d.byte()
	op := thread.Operation{
		AlreadyPrepared: flags&flagAlreadyPrepared != 0,
		TextTruncated:   flags&flagTextTruncated != 0,
		Kind:            thread.OperationKind(d.byte()),
		AdmittedSeq:     d.fixed(),
	}
	copy(op.Hash[:], d.take(uint64(len(op.Hash))))
	return op
}

func decodeOperation(id string, v []byte) (thread.Operation, error) {
	d := decoder{b: v}
	op := d.operationHead()
	op.ID = id
	op.StartedAt = d.time()
	op.Completed = d.completed()
	op.Text = d.string()
	return op, d.end()
}

// admitted is an operation as Load reads it, with its place in the order.
type admitted struct {
	thread.Admitted
	seq uint64
}

func decodeAdmitted(id []byte, v []byte) (admitted, error) {
	d := decoder{b: v}
	op := d.operationHead()
	return admitted{
		Admitted: thread.Admitted{ID: string(id), Kind: op.Kind, Hash: op.Hash, AlreadyPrepared: op.AlreadyPrepared},
		seq:      op.AdmittedSeq,
	}, d.err
}

// operationOrder returns the sequence number at which a stored operation was
// admitted, and whether it has completed.
func operationOrder(v []byte) (seq uint64, completed bool, err error) {
	if len(v) < operationHeaderBytes || v[0] != valueVersion {
		return 0, false, errDamaged
	}
	return binary.BigEndian.Uint64(v[offOperationAdmitted:]), v[offOperationFlags]&flagCompleted != 0, nil
}
