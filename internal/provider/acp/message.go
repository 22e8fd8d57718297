package acp

import (
	"strings"
	"time"
)

// message gathers the chunks of one assistant message.
//
// An agent whose model connection was cut tries again by itself and sends the
// message again from the beginning, under the same id. The deltas cannot be taken
// back; the message can be put right, if what came after a silent gap repeats the
// beginning exactly.
type message struct {
	gap    time.Duration // a silence that may have been a retry
	limit  int           // bytes
	id     string
	text   strings.Builder
	starts []int // where a text may have begun anew, rising
	last   time.Time
	tool   bool // a tool call came since the last chunk
}

// belongs reports whether a chunk with this id continues the message. A chunk
// without an id continues any.
func (m *message) belongs(id string) bool {
	return m.text.Len() == 0 || id == "" || m.id == "" || m.id == id
}

// add reports false, and adds nothing, when the message would be too long.
func (m *message) add(id, chunk string, now time.Time) bool {
	if m.text.Len()+len(chunk) > m.limit {
		return false
	}
	if m.id == "" {
		m.id = id
	}
	if m.text.Len() > 0 && !m.tool && now.Sub(m.last) >= m.gap {
		m.starts = append(m.starts, m.text.Len())
	}
	m.text.WriteString(chunk)
	m.last, m.tool = now, false
	return true
}

// take returns the whole message and begins a new one.
func (m *message) take() string {
	all := m.text.String()
	whole := all
	if len(m.starts) > 0 {
		whole = withoutRepeats(all, m.starts)
	}
	*m = message{gap: m.gap, limit: m.limit}
	return whole
}

// withoutRepeats joins the pieces between the starts. A piece that begins with all
// there is so far replaces it; one that is a mere beginning of it was cut again,
// and is dropped if another attempt follows.
func withoutRepeats(all string, starts []int) string {
	whole := all[:starts[0]]
	for i, start := range starts {
		end, last := len(all), i == len(starts)-1
		if !last {
			end = starts[i+1]
		}
		switch piece := all[start:end]; {
		case strings.HasPrefix(piece, whole):
			whole = piece
		case !last && strings.HasPrefix(whole, piece):
		default:
			whole += piece
		}
	}
	return whole
}
