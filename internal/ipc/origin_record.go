package ipc

import (
	"encoding/binary"
	"fmt"
	"time"
)

// verdict is what the user decided about an origin. The numbers are stored.
type verdict uint8

const (
	undecided verdict = 0
	approved  verdict = 1
	rejected  verdict = 2
)

// String returns the word that list_origins uses.
func (v verdict) String() string {
	switch v {
	case approved:
		return "approved"
	case rejected:
		return "rejected"
	}
	return "undecided"
}

// decision is a verdict and when it was given.
type decision struct {
	verdict verdict
	at      time.Time
}

// originVersion is the version of the stored form.
const originVersion = 1

// encode returns the stored form: version, verdict, time in Unix milliseconds.
func (d decision) encode() []byte {
	b := []byte{originVersion, byte(d.verdict)}
	return binary.BigEndian.AppendUint64(b, uint64(d.at.UnixMilli()))
}

func decodeDecision(b []byte) (decision, error) {
	if len(b) == 0 || b[0] != originVersion {
		return decision{}, fmt.Errorf("a decision about an origin has a form that is not known")
	}
	if len(b) != 10 || (verdict(b[1]) != approved && verdict(b[1]) != rejected) {
		return decision{}, fmt.Errorf("a decision about an origin is damaged")
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(b[2:]))).UTC()
	return decision{verdict(b[1]), at}, nil
}
