//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/settings"
)

// newPicker returns the picker of a settings file that names a command.
func newPicker(t *testing.T, command []string) picker {
	t.Helper()
	file := filepath.Join(t.TempDir(), settingsFile)
	text, err := json.Marshal(map[string]any{"pickerCommand": command})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, fileMode); err != nil {
		t.Fatal(err)
	}
	return picker{settings.New(file)}
}

func TestPicker(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		path    string
		code    fault.Code
	}{
		"prints a path":          {[]string{"printf", `/a folder/x\n`}, "/a folder/x", ""},
		"keeps inner blanks":     {[]string{"printf", "/ends with a blank "}, "/ends with a blank ", ""},
		"user cancelled":         {[]string{"true"}, "", ""},
		"fails":                  {[]string{"false"}, "", fault.DirectoryPickerFailed},
		"does not exist":         {[]string{"/no/such/picker"}, "", fault.DirectoryPickerFailed},
		"is not on PATH":         {[]string{"no-such-picker"}, "", fault.DirectoryPickerFailed},
		"prints what no path is": {[]string{"printf", `a\0b`}, "", fault.DirectoryPickerFailed},
		"prints without end":     {[]string{"sh", "-c", "yes | head -c 100000000"}, "", fault.DirectoryPickerFailed},
		"none configured":        {nil, "", fault.DirectoryPickerFailed},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := newPicker(t, c.command).Pick(t.Context())
			if path != c.path || (err != nil) != (c.code != "") || err != nil && !fault.Is(err, c.code) {
				t.Errorf("Pick() = %q, %v; want %q, %s", path, err, c.path, c.code)
			}
		})
	}
}

func TestWhatPagesHearOfAPickerHoldsNoPath(t *testing.T) {
	script := filepath.Join(t.TempDir(), "pick")
	if err := os.WriteFile(script, []byte("#!/no/such/shell\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"/no/such/picker"}, {"/bin/sh", "-c", "exit 3"}, {script}} {
		_, err := newPicker(t, command).Pick(t.Context())
		message := fault.From(err).Message()
		if strings.Contains(message, "/") || !strings.Contains(message, filepath.Base(command[0])) {
			t.Errorf("%q: %q", command, message)
		}
	}
}

func TestAPickerSeesTheScreenAndNoSecrets(t *testing.T) {
	t.Setenv("DISPLAY", ":7")
	t.Setenv("OPENAI_API_KEY", "secret")
	got, err := newPicker(t, []string{"sh", "-c", `echo "$DISPLAY $OPENAI_API_KEY"`}).Pick(t.Context())
	if err != nil || got != ":7 " {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAPickerThatIsGivenUpGoesWithItsGroup(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	if err := syscall.Mkfifo(pids, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	p := newPicker(t, []string{"sh", "-c", `sleep 1000 & echo $! > "$0"; wait`, pids})
	go func() {
		_, err := p.Pick(ctx)
		done <- err
	}()
	text, err := os.ReadFile(pids) // once the picker has said it
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !fault.Is(err, fault.DirectoryPickerFailed) {
		t.Errorf("Pick() = %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	patient, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if pollGone(patient, pid, gonePoll); patient.Err() != nil {
		t.Errorf("process %d is left", pid)
	}
}
