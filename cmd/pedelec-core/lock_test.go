package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func never() bool { return false }

func TestLockIsTakenOnce(t *testing.T) {
	home := t.TempDir()
	lock, err := acquireLock(t.Context(), home, time.Second, never)
	if err != nil {
		t.Fatal(err)
	}
	_, err = acquireLock(t.Context(), home, time.Millisecond, never)
	want := fmt.Sprintf("another pedelec-core (process %d) holds %s but answers nobody; end that process, then start again", os.Getpid(), filepath.Join(home, lockFileName))
	if runtime.GOOS == "windows" { // nobody else can read a locked file there
		want = strings.ReplaceAll(want, fmt.Sprintf(" (process %d)", os.Getpid()), "")
	}
	if err == nil || err.Error() != want {
		t.Errorf("a second daemon got %v; want %s", err, want)
	}
	if _, err := acquireLock(t.Context(), home, time.Hour, func() bool { return true }); !errors.Is(err, errLockHeld) {
		t.Errorf("beside a daemon that answers: %v, want errLockHeld", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := acquireLock(t.Context(), home, time.Second, never)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again.Release()
}

func TestLockWaitsForALeavingDaemon(t *testing.T) {
	home := t.TempDir()
	leaving, err := acquireLock(t.Context(), home, time.Second, never)
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	next, err := acquireLock(t.Context(), home, time.Minute, func() bool {
		if tries++; tries == 2 {
			leaving.Release()
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	next.Release()
}

func TestLockIsNotWaitedForByOneWhoIsToldToLeave(t *testing.T) {
	home := t.TempDir()
	lock, err := acquireLock(t.Context(), home, time.Second, never)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	_, err = acquireLock(ctx, home, time.Hour, func() bool {
		if tries++; tries == 2 {
			cancel()
		}
		return false
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
