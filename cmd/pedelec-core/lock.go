package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// errLockHeld says that another process holds the instance lock.
var errLockHeld = errors.New("the lock is held")

// Waiting for the instance lock: a daemon that leaves closes its listeners
// first and needs up to ten seconds for the rest.
const (
	lockPatience = 15 * time.Second
	lockRetry    = 50 * time.Millisecond
)

// instanceLock is held by the one daemon of a home folder for as long as it
// lives; the system frees it however the process ends.
type instanceLock struct{ file *os.File }

// acquireLock takes the lock of the home folder. While another process holds
// it, answers is asked whether a daemon serves; if so, acquireLock returns
// errLockHeld at once, else it tries again until patience is over.
func acquireLock(ctx context.Context, home string, patience time.Duration, answers func() bool) (*instanceLock, error) {
	path := filepath.Join(home, lockFileName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, fmt.Errorf("the instance lock %s cannot be opened: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := tryLock(file)
		if err == nil {
			return &instanceLock{file}, nil
		}
		if !errors.Is(err, errLockHeld) {
			file.Close()
			return nil, fmt.Errorf("the instance lock %s cannot be taken: %w; put the home folder on a local disk with --home DIR", path, err)
		}
		if answers() {
			file.Close()
			return nil, errLockHeld
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("another pedelec-core holds %s but answers nobody; end that process, then start again", path)
		case <-time.After(lockRetry):
		}
	}
}

// Release frees the lock. The file stays: removing it would let two processes
// lock two files of one name.
func (l *instanceLock) Release() error { return l.file.Close() }
