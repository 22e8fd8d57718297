package main

import (
	"strings"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// A daemon whose runtime.json somebody removed was said not to run.
func TestADaemonWhoseRuntimeFileIsGoneIsNotSaidNotToRun(t *testing.T) {
	a := &app{home: t.TempDir()}
	_, err := a.connect(t.Context())
	if !fault.Is(err, fault.CoreRuntimeUnavailable) || !strings.Contains(sentence(err), "is not running") {
		t.Errorf("without a daemon: %v", err)
	}
	lock, err := acquireLock(t.Context(), a.home, lockPatience, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	_, err = a.connect(t.Context())
	if !fault.Is(err, fault.CoreRuntimeUnavailable) || !strings.Contains(sentence(err), lock.holder()+" runs but cannot be found") {
		t.Errorf("beside one: %v", err)
	}
}
