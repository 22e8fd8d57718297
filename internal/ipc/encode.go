package ipc

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Encoders append to a buffer and never fail: text that is not UTF-8 is
// repaired, a raw value that is not there is null. Members keep the order in
// which the protocol lists them; HTML characters are not escaped.

func appendString(dst []byte, s string) []byte {
	// The error says that bytes were replaced, which is what we want.
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// appendMember appends `,"name":"value"`; name needs no escaping.
func appendMember(dst []byte, name, value string) []byte {
	dst = appendName(dst, name)
	return appendString(dst, value)
}

// appendName appends `,"name":`.
func appendName(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendUint(dst []byte, name string, n uint64) []byte {
	dst = appendName(dst, name)
	return strconv.AppendUint(dst, n, 10)
}

func appendTrue(dst []byte, name string) []byte {
	dst = appendName(dst, name)
	return append(dst, "true"...)
}

func appendBool(dst []byte, name string, b bool) []byte {
	dst = appendName(dst, name)
	return strconv.AppendBool(dst, b)
}

func appendTime(dst []byte, name string, t time.Time) []byte {
	dst = appendName(dst, name)
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

func appendRaw(dst []byte, name string, raw jsontext.Value) []byte {
	dst = appendName(dst, name)
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, raw...)
}

// appendError appends the error object. Message and details are cut to
// [MaxDetailsBytes].
func appendError(dst []byte, e *fault.Error) []byte {
	return thread.AppendError(dst, e, MaxDetailsBytes)
}

// cutText returns at most limit bytes of s, cut at a code point.
func cutText(s string, limit int) string {
	start, _ := thread.CutText(s, limit)
	return start
}
