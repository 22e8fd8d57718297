package workspace

import (
	"path/filepath"
	"strings"
)

func cleanPath(path string) string { return filepath.Clean(stripVerbatim(path)) }

func showPath(path string) string { return stripVerbatim(path) }

// equalPath compares without regard to letter case, as the file system does.
func equalPath(a, b string) bool { return strings.EqualFold(a, b) }
