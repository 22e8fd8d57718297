package provider

import (
	"os"
	"path/filepath"
)

// executable returns the program of a name in a folder, or "".
func executable(dir, name string) string {
	for _, ext := range []string{"", ".exe", ".cmd", ".bat"} {
		if ext == "" && filepath.Ext(name) == "" {
			continue // a script for another system
		}
		path := filepath.Join(dir, name+ext)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
