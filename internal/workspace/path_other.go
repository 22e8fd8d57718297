//go:build !windows

package workspace

import "path/filepath"

func cleanPath(path string) string { return filepath.Clean(path) }

func showPath(path string) string { return path }

// equalPath compares byte for byte. Where a file system ignores letter case,
// inside finds the same folder by its identity.
func equalPath(a, b string) bool { return a == b }
