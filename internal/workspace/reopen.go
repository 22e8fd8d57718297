package workspace

import (
	"errors"
	"fmt"
	"os"
)

// Reopen checks a recorded workspace before its thread is resumed: it exists
// and is a directory, its canonical path is still the recorded one, it can be
// opened, and its private folder can be made and written. The error is a
// sentence's worth of cause for WORKSPACE_OPEN_FAILED.
func (m *Manager) Reopen(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the workspace is gone: %w", err)
	}
	if !info.IsDir() {
		return errors.New("the workspace is no longer a directory")
	}
	real, err := canonical(path)
	if err != nil {
		return fmt.Errorf("the workspace cannot be resolved: %w", err)
	}
	if !equalPath(real, cleanPath(path)) {
		return fmt.Errorf("the workspace's path leads elsewhere now: %s", showPath(real))
	}
	private, err := openPrivate(path)
	if err != nil {
		return fmt.Errorf("the workspace cannot be used: %w", err)
	}
	defer private.Close()
	if err := writable(private); err != nil {
		return fmt.Errorf("the workspace cannot be written: %w", err)
	}
	return nil
}
