package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBrowserPage uses the page of `pedelec-core demo --web` as a person would.
// PEDELEC_E2E_PICTURES names a folder that gets a picture of each of its states.
func TestBrowserPage(t *testing.T) {
	if !*browserRun {
		t.Skip("a browser is driven only with -browser (make e2e-browser)")
	}
	tools, err := installBrowser()
	if err != nil {
		t.Skipf("no browser: %v", err)
	}
	source, err := os.ReadFile(filepath.Join("browser", "page.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(filepath.Dir(tools.driver), "page.mjs") // beside the modules that it imports
	if err := os.WriteFile(script, source, 0o644); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cmd := exec.Command(tools.node, script, binary, tools.chromium, folder)
	cmd.Env = cleanEnv()
	text, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(text)) {
		t.Log(strings.TrimSpace(line))
	}
	if err != nil {
		t.Error(err)
	}
	keepPictures(t, folder)
}

func keepPictures(t *testing.T, folder string) {
	t.Helper()
	target := os.Getenv("PEDELEC_E2E_PICTURES")
	if target == "" {
		return
	}
	pictures, err := filepath.Glob(filepath.Join(folder, "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, picture := range pictures {
		b, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(target, filepath.Base(picture)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
