package main

import (
	"strings"
	"testing"
	"time"
)

// A daemon whose runtime file was removed was said not to run, and to be started.
func TestDoctorTellsOfADaemonThatCannotBeReached(t *testing.T) {
	home := t.TempDir()
	lock, err := acquireLock(t.Context(), home, time.Second, never)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	r.examineDaemon(t.Context(), home)
	if r.worst() != bad || !strings.Contains(r.findings[0].Text, "cannot be reached") {
		t.Errorf("while the lock is held: %v", r.findings)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	r = report{}
	r.examineDaemon(t.Context(), home)
	if r.worst() != good {
		t.Errorf("when nobody holds it: %v", r.findings)
	}
	next, err := acquireLock(t.Context(), home, time.Millisecond, never)
	if err != nil {
		t.Fatalf("doctor kept the lock: %v", err)
	}
	next.Release()
}
