//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/webdemo"
)

// webRun is a demo that serves its page.
type webRun struct {
	*testing.T
	cmd  *exec.Cmd
	tmp  string // its folder for temporary files
	url  string
	said string // up to the command that approves the page
}

func startWebDemo(t *testing.T, args ...string) *webRun {
	t.Helper()
	r := &webRun{T: t, tmp: t.TempDir()}
	r.cmd = exec.Command("pedelec-core", append(args, "demo", "--web")...) // the test binary under that name
	r.cmd.Env = append(withoutPedelec(os.Environ()), "TMPDIR="+r.tmp)
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		}
	})
	lines := bufio.NewScanner(out)
	for !strings.Contains(r.said, "origins approve") && lines.Scan() {
		r.said += lines.Text() + "\n"
	}
	r.url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(r.said)
	if r.url == "" {
		t.Fatalf("the demo says no address: %q", r.said)
	}
	return r
}

// config asks as the page does; ok is false while no daemon is there.
func (r *webRun) config() (c webdemo.Config, ok bool) {
	r.Helper()
	answer, err := http.Get(r.url + "/config.json")
	if err != nil {
		r.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return c, false
	}
	if err := json.UnmarshalRead(answer.Body, &c); err != nil {
		r.Fatal(err)
	}
	return c, true
}

// interrupt presses Ctrl-C and wants a clean end that leaves nothing.
func (r *webRun) interrupt() {
	r.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		r.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		r.Errorf("the demo ended with %v", err)
	}
	left, err := filepath.Glob(filepath.Join(r.tmp, "pedelec-demo-*"))
	if err != nil || len(left) > 0 {
		r.Errorf("it left %v, %v", left, err)
	}
}

func TestTheWebDemoServesThePageAndKeepsADaemonBehindIt(t *testing.T) {
	r := startWebDemo(t)
	c, ok := r.config()
	if !ok || c.Endpoint == "" || !c.Scripted || c.Workspace == "" || !strings.Contains(r.said, c.Approve) {
		t.Fatalf("the page is told %+v, the user %q", c, r.said)
	}
	home := regexp.MustCompile(`--home (\S+)`).FindStringSubmatch(c.Approve)[1]
	first, err := ipc.ReadRuntimeFile(home)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitThat(t, "another daemon", func() bool {
		second, err := ipc.ReadRuntimeFile(home)
		_, ok := serving(t.Context(), home)
		return ok && err == nil && second.PID != first.PID
	})
	second, err := ipc.ReadRuntimeFile(home)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := r.config(); !ok || c.Endpoint != second.HTTPEndpoint {
		t.Errorf("the page is told %+v, the daemon listens on %s", c, second.HTTPEndpoint)
	}
	r.interrupt()
	if alive(second.PID) {
		t.Errorf("its daemon (pid %d) still runs", second.PID)
	}
}

func TestTheWebDemoUsesTheDaemonOfAHomeThatIsNamed(t *testing.T) {
	s := newTestStage(t)
	client, err := s.launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := startWebDemo(t, "--home", s.home)
	c, ok := r.config()
	if !ok || c.Endpoint != client.Runtime().HTTPEndpoint || c.Scripted || c.Workspace != "" {
		t.Errorf("the page is told %+v", c)
	}
	if want := fmt.Sprintf("--home %s origins approve %s", s.home, r.url); !strings.HasSuffix(c.Approve, want) {
		t.Errorf("the command is %q", c.Approve)
	}
	r.interrupt()
	if err := client.Call(t.Context(), "ping", nil, nil); err != nil {
		t.Errorf("the user's daemon after the demo: %v", err)
	}
}

func TestTheWebDemoStartsADaemonInAHomeThatHasNone(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	r := startWebDemo(t, "--home", home)
	f, err := ipc.ReadRuntimeFile(home)
	if err != nil {
		t.Fatal(err)
	}
	r.interrupt()
	if alive(f.PID) {
		t.Errorf("its daemon (pid %d) still runs", f.PID)
	}
	if _, err := os.Stat(filepath.Join(home, "core.db")); err != nil {
		t.Errorf("the user's files are gone: %v", err)
	}
}

func TestQuoteWord(t *testing.T) {
	for word, want := range map[string]string{
		"/plain/path": "/plain/path", "/with space": "'/with space'", "it's": `'it'\''s'`, "$HOME": "'$HOME'",
	} {
		if got := quoteWord(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
	}
}
