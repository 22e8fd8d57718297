package main

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// browserCommand returns the command that opens a page, nil where the system's
// folder cannot be told.
func browserCommand(url string) []string {
	system, err := windows.GetSystemDirectory()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(system, "rundll32.exe"), "url.dll,FileProtocolHandler", url}
}
