package ipc

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
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

// appendError appends the error object {code, message, details?}. Message and
// details are cut to [MaxDetailsBytes].
func appendError(dst []byte, e *fault.Error) []byte {
	dst = append(dst, `{"code":`...)
	dst = appendString(dst, string(e.Code))
	dst = appendMember(dst, "message", cutText(e.Message(), MaxDetailsBytes))
	if len(e.Details) > 0 {
		dst = append(dst, `,"details":`...)
		dst = appendDetails(dst, e.Details)
	}
	return append(dst, '}')
}

// appendDetails appends the details of an error. When they are too large, the
// small ones are kept, long strings are cut, and what fits in no way is left
// out; detailsTruncated then says so.
func appendDetails(dst []byte, details map[string]any) []byte {
	members := encodeMembers(details)
	size := len("{}")
	for _, m := range members {
		size += m.size()
	}
	if size <= MaxDetailsBytes {
		return appendMembers(dst, members)
	}
	slices.SortStableFunc(members, func(a, b member) int { return len(a.value) - len(b.value) })
	const truncated, mark = "detailsTruncated", `"detailsTruncated":true,`
	room := MaxDetailsBytes - len("{}") - len(mark)
	kept := members[:0]
	for _, m := range members {
		m.shorten(room)
		if m.size() > room || m.name == truncated {
			continue
		}
		room -= m.size()
		kept = append(kept, m)
	}
	kept = append(kept, member{name: truncated, value: []byte("true")})
	return appendMembers(dst, kept)
}

// member is one encoded member of an object.
type member struct {
	name  string
	value []byte
	text  string // the value before it was encoded, if it is a string
}

// size is at least what the member takes in the encoded object.
func (m member) size() int { return len(appendString(nil, m.name)) + len(m.value) + len(":,") }

// shorten cuts a string value so that the member fits into room bytes.
func (m *member) shorten(room int) {
	if m.text == "" || m.size() <= room {
		return
	}
	m.text = cutText(m.text, max(0, room)) // a byte of text takes at least one encoded
	m.value = appendString(m.value[:0], m.text)
	// Escaping makes text up to six times as long, so that a sixth of what is
	// too much can always go; the loop comes close to room from above.
	for over := m.size() - room; over > 0 && m.text != ""; over = m.size() - room {
		m.text = cutText(m.text, max(0, len(m.text)-max(over/6, 1)))
		m.value = appendString(m.value[:0], m.text)
	}
}

func encodeMembers(details map[string]any) []member {
	members := make([]member, 0, len(details))
	for name, v := range details {
		value, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			continue // a detail that is not JSON is a mistake of ours, not worth losing the error for
		}
		text, _ := v.(string)
		members = append(members, member{strings.ToValidUTF8(name, "\ufffd"), value, text})
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	// Names that differ in what is no text only: a second one would make it no JSON.
	return slices.CompactFunc(members, func(a, b member) bool { return a.name == b.name })
}

func appendMembers(dst []byte, members []member) []byte {
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, m.name)
		dst = append(dst, ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}')
}

// cutText returns at most limit bytes of s, cut at a code point.
func cutText(s string, limit int) string {
	start, _ := thread.CutText(s, limit)
	return start
}
