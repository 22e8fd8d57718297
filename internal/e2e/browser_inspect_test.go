package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBrowserInspect looks at a daemon on the operator's page as a person would.
// PEDELEC_E2E_PICTURES names a folder that gets a picture of each of its states.
func TestBrowserInspect(t *testing.T) {
	if !*browserRun {
		t.Skip("a browser is driven only with -browser (make e2e-browser)")
	}
	tools, err := installBrowser()
	if err != nil {
		t.Skipf("no browser: %v", err)
	}
	source, err := os.ReadFile(filepath.Join("browser", "inspect.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(filepath.Dir(tools.driver), "inspect.mjs") // beside the modules that it imports
	if err := os.WriteFile(script, source, 0o644); err != nil {
		t.Fatal(err)
	}

	d := start(t, newHome(t))
	idle := newPage(t, d, nil)
	idle.says(idle.send("echo hello there"))
	pending := newPage(t, d, nil)
	op := pending.send(`call add {"a":1,"b":2}`)
	asked := pending.call()
	var link struct {
		URL string `json:"url"`
	}
	pending.must(d.operator().call("create_inspect_link", nil, &link))

	folder := t.TempDir()
	cmd := exec.Command(tools.node, script, tools.chromium, folder, link.URL, pending.id, idle.id)
	cmd.Env = cleanEnv()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problems strings.Builder
	cmd.Stderr = &problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() != "now: answer" {
			t.Log(lines.Text())
			continue
		}
		if err := pending.submit(asked, "3"); err != nil {
			t.Errorf("the tool is not answered: %v", err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, problems.String())
	}
	keepPictures(t, folder)
	if !t.Failed() {
		pending.says(op)
	}
}
