package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

const (
	threadA = "t0123456789abcdef"
	threadB = "tzzzzzzzzzzzzzzzz"
)

// newManager returns a Manager with its root under a fresh home, which is
// returned too, free of links.
func newManager(t testing.TB) (*Manager, string) {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := New(filepath.Join(home, ".pedelec", "workspaces"))
	m.RemoveWait = time.Millisecond
	return m, home
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exists(t testing.TB, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func wantCode(t testing.TB, err error, code fault.Code, details ...string) *fault.Error {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	if e.Message() == "" {
		t.Error("the message is empty")
	}
	var keys []string
	for k := range e.Details {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	slices.Sort(details)
	if !slices.Equal(keys, details) {
		t.Errorf("details %v, want keys %v", e.Details, details)
	}
	return e
}

// arm arms failpoints for one test.
func arm(t *testing.T, spec string) {
	t.Helper()
	must(t, fault.Arm(spec))
	t.Cleanup(func() { _ = fault.Arm("") })
}
