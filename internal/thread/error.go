package thread

import (
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// AppendError appends an error as programs and models read it everywhere, the object
// {code, message, details?}. The message and the details have at most limit bytes
// each. It never fails: text that is not UTF-8 is repaired.
func AppendError(dst []byte, e *fault.Error, limit int) []byte {
	dst = append(dst, `{"code":`...)
	dst = appendQuoted(dst, string(e.Code))
	dst = append(dst, `,"message":`...)
	message, _ := CutText(e.Message(), limit)
	dst = appendQuoted(dst, message)
	if members := encodeMembers(e.Details); len(members) > 0 {
		dst = append(dst, `,"details":`...)
		dst = appendDetails(dst, members, limit)
	}
	return append(dst, '}')
}

// EncodeError returns {"error": …} with an error of any length.
func EncodeError(e *fault.Error) []byte {
	return append(AppendError([]byte(`{"error":`), e, math.MaxInt), '}')
}

// appendDetails appends the details of an error. When they are too large, the
// small ones are kept, long strings are cut, and what fits in no way is left
// out; detailsTruncated then says so.
func appendDetails(dst []byte, members []member, limit int) []byte {
	size := len("{}")
	for _, m := range members {
		size += m.size()
	}
	if size <= limit {
		return appendMembers(dst, members)
	}
	slices.SortStableFunc(members, func(a, b member) int { return len(a.value) - len(b.value) })
	const truncated, mark = "detailsTruncated", `"detailsTruncated":true,`
	room := limit - len("{}") - len(mark)
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
func (m member) size() int { return len(appendQuoted(nil, m.name)) + len(m.value) + len(":,") }

// shorten cuts a string value so that the member fits into room bytes.
func (m *member) shorten(room int) {
	if m.text == "" || m.size() <= room {
		return
	}
	m.text, _ = CutText(m.text, max(0, room)) // a byte of text takes at least one encoded
	m.value = appendQuoted(m.value[:0], m.text)
	// Escaping makes text up to six times as long, so that a sixth of what is
	// too much can always go; the loop comes close to room from above.
	for over := m.size() - room; over > 0 && m.text != ""; over = m.size() - room {
		m.text, _ = CutText(m.text, max(0, len(m.text)-max(over/6, 1)))
		m.value = appendQuoted(m.value[:0], m.text)
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
		dst = appendQuoted(dst, m.name)
		dst = append(dst, ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}')
}

func appendQuoted(dst []byte, s string) []byte {
	// The error says that bytes were replaced, which is what we want.
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
