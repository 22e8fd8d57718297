package assets

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSafeName bounds the part of a stored name that the user chose, in bytes, so
// that the id fits before it on every file system.
const maxSafeName = 180

// fallbackName is for a name of which nothing usable is left.
const fallbackName = "upload"

// safeName returns a form of a file's name that is good on every system: it
// cannot lead anywhere, and no program takes it for something special.
func safeName(filename string) string {
	name := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, filename)
	name = cutAtRune(strings.TrimFunc(name, isEdge), maxSafeName)
	name = strings.TrimRightFunc(name, isEdge) // the cut may have bared a dot
	if name == "" || isDeviceName(name) {
		return fallbackName
	}
	return name
}

func isEdge(r rune) bool { return r == '.' || unicode.IsSpace(r) }

// isDeviceName tells the names that Windows keeps for devices.
func isDeviceName(name string) bool {
	name = strings.ToUpper(name)
	switch name {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	port, isPort := strings.CutPrefix(name, "COM")
	if !isPort {
		port, isPort = strings.CutPrefix(name, "LPT")
	}
	return isPort && len(port) == 1 && port[0] >= '0' && port[0] <= '9'
}

// cutAtRune shortens s to at most limit bytes without tearing a rune.
func cutAtRune(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// disposition returns the Content-Disposition that saves a download under a
// name: a plain form for old programs, and the whole name as in RFC 5987.
func disposition(name string) string {
	var plain, encoded strings.Builder
	for _, r := range name {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\%`, r) {
			r = '_'
		}
		plain.WriteRune(r)
	}
	const hex = "0123456789ABCDEF"
	for _, b := range []byte(name) {
		if isAttrChar(b) {
			encoded.WriteByte(b)
			continue
		}
		encoded.WriteByte('%')
		encoded.WriteByte(hex[b>>4])
		encoded.WriteByte(hex[b&15])
	}
	return `attachment; filename="` + plain.String() + `"; filename*=UTF-8''` + encoded.String()
}

// isAttrChar tells what stands for itself in an extended value (RFC 5987 3.2.1).
func isAttrChar(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("!#$&+-.^_`|~", b) >= 0
}
