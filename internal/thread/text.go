package thread

import "unicode/utf8"

// CutText returns the longest start of s that has at most limit bytes and ends
// between code points, and whether anything was cut off. With a limit of
// utf8.UTFMax or more it returns something of every text that is not empty; what
// is no UTF-8 is cut anywhere.
func CutText(s string, limit int) (start string, cut bool) {
	if len(s) <= limit {
		return s, false
	}
	for n := limit; n > limit-utf8.UTFMax; n-- {
		if n <= 0 {
			return "", true
		}
		if utf8.RuneStart(s[n]) {
			return s[:n], true
		}
	}
	return s[:limit], true
}

// splitEncoded splits s between code points into pieces that have at most limit
// bytes as JSON strings, quotes not counted. An empty text is one piece.
func splitEncoded(s string, limit int) []string {
	if len(s)*maxEscape <= limit {
		return []string{s}
	}
	var parts []string
	start, size := 0, 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		enc := encodedLen(r, n)
		if size+enc > limit && i > start {
			parts = append(parts, s[start:i])
			start, size = i, 0
		}
		size += enc
		i += n
	}
	return append(parts, s[start:])
}

// maxEscape is how many bytes one byte may need in a JSON string: \u001f.
const maxEscape = 6

func encodedLen(r rune, n int) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < 0x20:
		return maxEscape
	case r == utf8.RuneError && n == 1:
		return utf8.RuneLen(utf8.RuneError)
	}
	return n
}

// appendOpen appends to the text of an unfinished message. Older states keep
// reading their shorter part of the same memory. Text that no snapshot shows any
// more is dropped from the front by moving the rest to new memory.
func appendOpen(open []byte, text string) []byte {
	if len(open)+len(text) > 2*MaxActiveMessage {
		kept := open[max(0, len(open)-MaxActiveMessage):]
		open = append(make([]byte, 0, 2*MaxActiveMessage+len(text)), kept...)
	}
	return append(open, text...)
}

// openTail returns the last MaxActiveMessage bytes of an unfinished message,
// from a code point on.
func openTail(open []byte) string {
	tail := open[max(0, len(open)-MaxActiveMessage):]
	if len(tail) < len(open) {
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return string(tail)
}

func saturatingAdd(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}
