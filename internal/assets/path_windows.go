package assets

import (
	"path/filepath"
	"strings"
)

// allowedHere reports whether the system takes a name as it is: no device, no
// stream, no wildcard, and no end that it would cut off.
func allowedHere(segment string) bool {
	return filepath.IsLocal(segment) && !strings.ContainsAny(segment, `:*?"<>|`) && !strings.HasSuffix(segment, ".") && !strings.HasSuffix(segment, " ")
}
