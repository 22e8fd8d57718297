package proc

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// tailSize is how much of a runtime's stderr is kept, in bytes.
const tailSize = 64 << 10

// tail keeps the last bytes that were written to it. Its Write never fails and
// never waits for anybody who reads, so a runtime that floods its stderr hurts
// nobody.
type tail struct {
	mu   sync.Mutex
	ring []byte // made at the first write: most runtimes are silent
	next int    // where the next byte goes
	full bool   // the ring has been round once
}

func (t *tail) Write(p []byte) (int, error) {
	written := len(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ring == nil {
		t.ring = make([]byte, tailSize)
	}
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
	}
	for len(p) > 0 {
		n := copy(t.ring[t.next:], p)
		p = p[n:]
		if t.next += n; t.next == tailSize {
			t.next, t.full = 0, true
		}
	}
	return written, nil
}

// last returns at most n of the last bytes as valid UTF-8. A code point that
// the cut would split is left out.
func (t *tail) last(n int) string {
	t.mu.Lock()
	kept := append([]byte(nil), t.ring[:t.next]...)
	if t.full {
		kept = append(append([]byte(nil), t.ring[t.next:]...), kept...)
	}
	t.mu.Unlock()
	if cut := len(kept) - n; cut > 0 {
		kept = kept[cut:]
	}
	for i := 0; i < utf8.UTFMax-1 && len(kept) > 0 && !utf8.RuneStart(kept[0]); i++ {
		kept = kept[1:]
	}
	return strings.ToValidUTF8(string(kept), string(utf8.RuneError))
}
