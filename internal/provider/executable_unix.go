//go:build !windows

package provider

import (
	"os"
	"path/filepath"
)

// executable returns the program of a name in a folder, or "".
func executable(dir, name string) string {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return ""
	}
	return path
}
