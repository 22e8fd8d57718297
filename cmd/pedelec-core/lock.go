package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// errLockHeld says that another process holds the instance lock.
var errLockHeld = errors.New("the lock is held")

// Waiting for the instance lock: a daemon that leaves keeps it to the end of its
// process, for up to ten seconds.
const (
	lockPatience = 15 * time.Second
	lockRetry    = 50 * time.Millisecond
)

// maxLockFile is more than a process id takes. A larger file is not ours to write.
const maxLockFile = 32

// instanceLock is held by the one daemon of a home folder for as long as it
// lives; the system frees it however the process ends.
type instanceLock struct{ file *os.File }

// acquireLock takes the lock of the home folder. While another process holds
// it, answers is asked whether a daemon serves; if so, acquireLock returns
// errLockHeld at once, else it tries again until patience is over, or ctx, whose
// error it then returns.
func acquireLock(ctx context.Context, home string, patience time.Duration, answers func() bool) (*instanceLock, error) {
	path := filepath.Join(home, lockFileName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|openNoLink, fileMode)
	if err != nil {
		return nil, openFault(path, err)
	}
	if info, err := file.Stat(); err == nil && !info.Mode().IsRegular() {
		file.Close()
		return nil, fmt.Errorf("the instance lock %s is no plain file; move it away, then start again", path)
	}
	lock := &instanceLock{file}
	if err := lock.take(ctx, patience, answers); err != nil {
		file.Close()
		return nil, err
	}
	lock.sign()
	return lock, nil
}

func (l *instanceLock) take(ctx context.Context, patience time.Duration, answers func() bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		err := tryLock(l.file)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errLockHeld) {
			return lockFault(l.file.Name(), err)
		}
		if answers() {
			return errLockHeld
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return fmt.Errorf("another pedelec-core%s holds %s but answers nobody; end that process, then start again", l.holder(), l.file.Name())
		case <-time.After(lockRetry):
		}
	}
}

func openFault(path string, err error) error {
	remedy := "choose another home folder with --home DIR"
	if _, missing := os.Lstat(path); missing == nil && inTheWay(err) {
		remedy = "move it away, then start again"
	}
	return fmt.Errorf("the instance lock %s cannot be opened (%w); %s", path, withoutPath(err), remedy)
}

func lockFault(path string, err error) error {
	if cannotLock(err) {
		return fmt.Errorf("the file system of %s cannot lock files (%w), so two daemons could use the home folder at once; choose one on a local disk with --home DIR", path, err)
	}
	return fmt.Errorf("the instance lock %s cannot be taken (%w); look at the disk, or choose another home folder with --home DIR", path, err)
}

// sign leaves our process id in the file, for the sentence of those who wait in
// vain. Nothing else relies on it, so a full disk does no harm.
func (l *instanceLock) sign() {
	info, err := l.file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLockFile {
		return
	}
	if l.file.Truncate(0) == nil {
		_, _ = fmt.Fprintln(io.NewOffsetWriter(l.file, 0), os.Getpid())
	}
}

// holder names the process that signed the file: " (process 4711)", or "" if none
// has.
func (l *instanceLock) holder() string {
	var signed [maxLockFile]byte
	n, _ := l.file.ReadAt(signed[:], 0) // an error comes with what could be read
	pid, err := strconv.Atoi(strings.TrimSpace(string(signed[:n])))
	if err != nil || pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// lockedBy reports whether a process holds the lock of a home folder, and names it as
// holder does. Where none does, it takes the lock for a moment: a start tries again.
func lockedBy(home string) (holder string, held bool) {
	file, err := os.OpenFile(filepath.Join(home, lockFileName), os.O_RDWR|openNoLink, 0)
	if err != nil {
		return "", false
	}
	defer file.Close()
	if !errors.Is(tryLock(file), errLockHeld) {
		return "", false
	}
	lock := &instanceLock{file}
	return lock.holder(), true
}

// InPlace reports whether the file that is locked is still the one at its path. Who
// removes or replaces it lets another daemon take the lock.
func (l *instanceLock) InPlace() bool {
	held, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(l.file.Name())
	return err == nil && os.SameFile(held, there)
}

// Release frees the lock. The file stays: removing it would let two processes
// lock two files of one name.
func (l *instanceLock) Release() error { return l.file.Close() }
