package workspace

import "strings"

// stripVerbatim turns the verbatim form of a Windows path into the one that
// people write and other programs take: \\?\C:\x and \\?\UNC\server\share\x.
// Other verbatim paths, such as volume ids, have no such form and stay.
func stripVerbatim(path string) string {
	rest, ok := strings.CutPrefix(path, `\\?\`)
	if !ok {
		return path
	}
	if len(rest) >= 4 && strings.EqualFold(rest[:4], `UNC\`) {
		return `\\` + rest[4:]
	}
	if len(rest) >= 3 && rest[1] == ':' && rest[2] == '\\' {
		return rest
	}
	return path
}
