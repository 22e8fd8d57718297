package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// browserLimit is how long the program that opens a browser may take: some stay
// until the browser is closed, which nobody waits for.
const browserLimit = 5 * time.Second

// openBrowser shows a page to the person at this machine. It reports false when
// there is no desktop to show it on.
func openBrowser(ctx context.Context, url string) (opened bool, err error) {
	command := browserCommand(url)
	if command == nil {
		return false, nil
	}
	cmd := exec.Command(command[0], command[1:]...) // it may outlive us
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("%s: %w", filepath.Base(command[0]), withoutPath(err))
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the program, or with ours
	limit := time.NewTimer(browserLimit)
	defer limit.Stop()
	select {
	case err = <-ended:
	case <-limit.C: // it shows the page meanwhile
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", filepath.Base(command[0]), err)
	}
	return true, nil
}
