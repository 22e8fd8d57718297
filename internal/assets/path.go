package assets

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Limits of public paths: what file systems take for a name and for a path.
const (
	MaxSegmentBytes = 255
	MaxPathBytes    = 4096
)

// reservedPrefix begins the names that the daemon keeps for itself. They are no
// targets of uploads and are not listed.
const reservedPrefix = ".pedelec-"

// use is what a public path is meant for.
type use uint8

const (
	forReading use = iota + 1
	forUpload
)

// splitPath returns the segments of a public path: "/" and a relative path,
// taken byte for byte. Error: ASSET_PATH_INVALID, whose message names the rule.
func splitPath(path string, u use) ([]string, error) {
	rest, rooted := strings.CutPrefix(path, "/")
	if !rooted {
		return nil, pathInvalid("An asset path begins with a slash.")
	}
	if len(path) > MaxPathBytes {
		return nil, pathInvalid("An asset path has at most 4096 bytes.")
	}
	if !utf8.ValidString(path) {
		return nil, pathInvalid("An asset path is UTF-8.")
	}
	if strings.ContainsRune(path, '\\') || strings.ContainsFunc(path, unicode.IsControl) {
		return nil, pathInvalid("An asset path holds no backslash and no control character.")
	}
	segments := strings.Split(rest, "/")
	for _, s := range segments {
		if rule := brokenRule(s, u); rule != "" {
			return nil, pathInvalid(rule)
		}
	}
	return segments, nil
}

// brokenRule returns the rule that one segment breaks, or "".
func brokenRule(segment string, u use) string {
	switch {
	case segment == "":
		return "An asset path has no empty segment and no slash at its end."
	case segment == "." || segment == "..":
		return "An asset path has no segment . or .."
	case len(segment) > MaxSegmentBytes:
		return "A segment of an asset path has at most 255 bytes."
	case u == forUpload && strings.HasPrefix(segment, reservedPrefix):
		return "Names that begin with " + reservedPrefix + " are the daemon's own."
	case !allowedHere(segment):
		return "This system reserves a name or character of the asset path."
	}
	return ""
}

func pathInvalid(rule string) *fault.Error { return fault.New(fault.AssetPathInvalid, rule) }

// publicPath is the inverse of splitPath.
func publicPath(segments []string) string { return "/" + strings.Join(segments, "/") }
