//go:build !darwin && !windows

package main

import (
	"os"
	"os/exec"
)

// browserCommand returns the command that opens a page, nil where there is no
// desktop.
func browserCommand(url string) []string {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	path, err := exec.LookPath("xdg-open")
	if err != nil {
		return nil
	}
	return []string{path, url}
}
