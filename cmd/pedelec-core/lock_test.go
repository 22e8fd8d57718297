package main

import (
	"errors"
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
	if err == nil || errors.Is(err, errLockHeld) || !strings.Contains(err.Error(), "answers nobody") {
		t.Errorf("a second daemon got %v; want a sentence", err)
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
