//go:build unix

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const checkOften = "PEDELEC_DURATIONS=runtime-check=20ms"

// awaitFile waits until a file holds what it shall.
func awaitFile(t *testing.T, path string, want []byte) {
	t.Helper()
	err := waitFor(patience, path+" to be as it was", func() (bool, error) {
		got, err := os.ReadFile(path)
		return err == nil && bytes.Equal(got, want), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestARuntimeFileLostUnderADaemonIsWrittenAgain removes and damages the files by which
// clients and agents find a daemon that serves: nobody found it any more, for ever.
func TestARuntimeFileLostUnderADaemonIsWrittenAgain(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t), checkOften)
	for _, name := range runtimeFiles {
		path := filepath.Join(d.home, name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		removed := damage{"removed", func(path string, _ []byte) error { return os.Remove(path) }}
		for _, damage := range append([]damage{removed}, damages...) {
			if damage.name == "a folder" || damage.name == "unreadable" && os.Geteuid() == 0 {
				continue // it stays; root reads everything
			}
			if err := damage.do(path, content); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, path, content)
		}
		if !strings.Contains(d.said(), path) {
			t.Errorf("the log does not tell of %s", name)
		}
	}
	d.pong()
	if code, err := d.stop(); err != nil || code != 0 {
		t.Errorf("it left with %d: %v", code, err)
	}
	nothingLeft(t, d.home)
}

// TestADaemonWhoseHomeIsAwaySaysSoOnce moves the home away and back again.
func TestADaemonWhoseHomeIsAwaySaysSoOnce(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t), checkOften)
	path := filepath.Join(d.home, "runtime.json")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.home, d.home+".away"); err != nil {
		t.Fatal(err)
	}
	const complaint = "cannot be written again"
	d.awaitSaid(complaint)
	if err := os.Rename(d.home+".away", d.home); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, path, content)
	if n := strings.Count(d.said(), complaint); n != 1 {
		t.Errorf("it said so %d times", n)
	}
}
