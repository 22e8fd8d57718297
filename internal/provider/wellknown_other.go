//go:build !darwin && !windows

package provider

import "path/filepath"

// wellKnown returns folders in which agents are installed although no PATH names
// them, best first.
func wellKnown(home string) []string {
	var dirs []string
	for _, rel := range []string{
		".local/bin", ".opencode/bin", ".npm-global/bin", ".volta/bin", ".asdf/shims", ".local/share/mise/shims", ".local/share/pnpm", ".bun/bin",
	} {
		dirs = append(dirs, filepath.Join(home, rel))
	}
	return append(dirs, "/usr/local/bin")
}
