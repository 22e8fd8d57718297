//go:build !windows

package provider

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/leak"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// good is a program that is what is looked for.
const good = `#!/bin/sh
echo x >> "$(dirname "$0")/runs"
case "$*" in
*--version) echo "agent 1.2.3"; echo more;;
*"acp --help") echo "agent acp: speaks on stdio";;
*) exit 3;;
esac
`

type place struct {
	t       *testing.T
	root    string
	command []string
	cfg     Config
}

func newPlace(t *testing.T) *place {
	root := t.TempDir()
	return &place{t: t, root: root, cfg: Config{
		Drivers: []Driver{{
			Provider: thread.Cursor, Programs: []string{"agent", "cursor-agent"}, Args: []string{"acp"},
			HelpArgs: []string{"acp", "--help"}, HelpWord: "acp",
		}},
		Environ: []string{"PATH=" + root + "/a:" + root + "/b:relative:/usr/bin:/bin", "HOME=" + root},
	}}
}

// put writes a program.
func (p *place) put(name, script string) string {
	p.t.Helper()
	path := filepath.Join(p.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	// A child that is forked while the file is open for writing makes it busy.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *place) manager() *Manager { return p.managerWith(nil) }

// managerWith returns a manager whose settings give programs an environment.
func (p *place) managerWith(env map[string]string) *Manager {
	p.cfg.Override = func(thread.Provider) Override { return Override{Command: p.command, Env: env} }
	m := New(p.cfg)
	p.t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			p.t.Error(err)
		}
	})
	return m
}

// cursor returns Cursor's status after a scan.
func (p *place) cursor(m *Manager) thread.ProviderStatus {
	p.t.Helper()
	for _, s := range m.Refresh(p.t.Context()) {
		if s.Provider == thread.Cursor {
			return s
		}
	}
	p.t.Fatal("no status")
	return thread.ProviderStatus{}
}

func TestDiscoveryFindsTheFirstGoodProgramAndSaysWhatToDoOtherwise(t *testing.T) {
	tests := []struct {
		name     string
		programs map[string]string
		command  []string
		path     string // under the root
		problem  string // part of the sentence
	}{
		{name: "the first folder wins", programs: map[string]string{"a/agent": good, "b/agent": good}, path: "a/agent"},
		{name: "the newer name wins", programs: map[string]string{"a/cursor-agent": good, "b/agent": good}, path: "b/agent"},
		{name: "another program of that name is passed over", programs: map[string]string{"a/agent": "#!/bin/sh\necho hello\n", "b/cursor-agent": good}, path: "b/cursor-agent"},
		{name: "well-known folders come last", programs: map[string]string{".local/bin/agent": good}, path: ".local/bin/agent"},
		{name: "nothing", problem: "Cursor was not found: no program named agent or cursor-agent is on PATH. Install Cursor, or name its program in providerSettings.cursor.command."},
		{name: "no protocol", programs: map[string]string{"a/agent": "#!/bin/sh\necho hello\n"}, problem: `The program agent, which should be Cursor's, does not know "acp": it is too old, or another program of that name. Update Cursor, or name the right one in providerSettings.cursor.command.`},
		{name: "it fails", programs: map[string]string{"a/agent": "#!/bin/sh\nexit 3\n"}, problem: "The program agent, which should be Cursor's, failed when it was asked for its version (exit status 3). Install Cursor anew"},
		{name: "it cannot be run", programs: map[string]string{"a/agent": "#!/no/such/shell\n"}, problem: "failed when it was asked for its version (no such file or directory)"},
		{name: "a command", programs: map[string]string{"c/mine": good}, command: []string{"ROOT/c/mine", "lead"}, path: "c/mine"},
		{name: "a command on PATH", programs: map[string]string{"b/mine": good}, command: []string{"mine"}, path: "b/mine"},
		{name: "a command beats the program", programs: map[string]string{"a/agent": good, "c/mine": good}, command: []string{"ROOT/c/mine"}, path: "c/mine"},
		{name: "a command that is not there", programs: map[string]string{"a/agent": good}, command: []string{"ROOT/c/mine"}, problem: "mine of providerSettings.cursor.command was not found"},
		{name: "a command that is not on PATH", command: []string{"mine"}, problem: "mine of providerSettings.cursor.command was not found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.cfg.UserHome = p.root
			for name, script := range tt.programs {
				p.put(name, script)
			}
			for _, word := range tt.command {
				p.command = append(p.command, strings.ReplaceAll(word, "ROOT", p.root))
			}
			s := p.cursor(p.manager())
			if tt.problem == "" {
				want := thread.ProviderStatus{Provider: thread.Cursor, Available: true, Path: filepath.Join(p.root, tt.path), Version: "agent 1.2.3"}
				if s != want {
					t.Errorf("got %+v, want %+v", s, want)
				}
				return
			}
			if s.Available || !strings.Contains(s.Error, tt.problem) || strings.Contains(s.Error, p.root) || !strings.HasSuffix(s.Error, ".") {
				t.Errorf("got %+v, want %q", s, tt.problem)
			}
		})
	}
}

func TestAProgramIsProbedAgainOnlyWhenItsFileChanged(t *testing.T) {
	p := newPlace(t)
	path := p.put("a/agent", good)
	m := p.manager()
	runs := func() int {
		text, err := os.ReadFile(filepath.Join(p.root, "a", "runs"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "x")
	}
	p.cursor(m)
	p.cursor(m)
	if n := runs(); n != 2 { // version and help
		t.Errorf("%d runs for one file", n)
	}
	p.put("a/agent", strings.ReplaceAll(good, "1.2.3", "1.2.30"))
	if s := p.cursor(m); s.Version != "agent 1.2.30" || runs() != 4 {
		t.Errorf("after an update: %+v, %d runs", s, runs())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if s := p.cursor(m); s.Available {
		t.Errorf("after it was removed: %+v", s)
	}
}

func TestAProbeThatHangsIsKilledWithItsGroup(t *testing.T) {
	p := newPlace(t)
	p.put("a/agent", "#!/bin/sh\nsleep 1000 &\necho $! > \"$(dirname \"$0\")/pid.$$\"\nwait\n")
	p.cfg.ProbeTimeout = time.Second
	s := p.cursor(p.manager())
	if s.Available || !strings.Contains(s.Error, "The program agent, which should be Cursor's, did not answer in time") {
		t.Errorf("status %+v", s)
	}
	files, _ := filepath.Glob(filepath.Join(p.root, "a", "pid.*"))
	if len(files) != 2 {
		t.Fatalf("files %v", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if !dies(t, pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// dies waits for a process that was killed.
func dies(t *testing.T, pid int) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		gone := err != nil || strings.Contains(string(stat), ") Z ") // nobody reaps it in a bare container
		if syscall.Kill(pid, 0) != nil || gone {
			return true
		}
		select {
		case <-tick.C:
		case <-late.C:
			return false
		}
	}
}

func TestAProbeGetsNoInputAndItsOutputIsCut(t *testing.T) {
	p := newPlace(t)
	p.put("a/agent", "#!/bin/sh\ncat\nhead -c 10000000 /dev/zero | tr '\\0' y\necho acp\n")
	s := p.cursor(p.manager())
	if s.Available || !strings.Contains(s.Error, "does not know") { // the word comes after the cut
		t.Errorf("status %+v", s)
	}
}

func TestListWaitsForTheFirstScan(t *testing.T) {
	p := newPlace(t)
	p.put("a/agent", good)
	m := p.manager()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	before := m.List(ctx)
	if len(before) != len(thread.Providers) || before[3].Available || !strings.Contains(before[3].Error, "not been looked for") {
		t.Errorf("before the scan: %+v", before)
	}
	m.Start()
	after := m.List(t.Context())
	if !after[3].Available {
		t.Errorf("after the scan: %+v", after[3])
	}
	for i, s := range after {
		if s.Provider != thread.Providers[i] {
			t.Errorf("place %d has %s", i, s.Provider)
		}
		if s.Provider != thread.Cursor && (s.Available || !strings.Contains(s.Error, "not supported by this version yet")) {
			t.Errorf("%+v", s)
		}
	}
}

func TestAThreadOfAProviderWithoutARuntimeIsToldSo(t *testing.T) {
	m := newPlace(t).manager()
	for _, provider := range []thread.Provider{thread.Codex, thread.Claude, thread.Antigravity, thread.Ollama} {
		_, err := m.Attach(t.Context(), thread.SessionSpec{Provider: provider}, nil)
		if !fault.Is(err, fault.ProviderNotAvailable) || !strings.Contains(err.Error(), provider.Name()+" is not supported by this version yet.") {
			t.Errorf("%s: %v", provider, err)
		}
	}
	_, err := m.Attach(t.Context(), thread.SessionSpec{Provider: thread.Cursor}, nil)
	if !fault.Is(err, fault.ProviderNotAvailable) {
		t.Errorf("a missing program: %v", err)
	}
}

func TestTheLoginShellsPathIsSearchedToo(t *testing.T) {
	p := newPlace(t)
	p.put("login/agent", good)
	p.cfg.LoginShell = p.put("shell", "#!/bin/sh\necho Welcome back\nPATH="+p.root+"/login:/usr/bin:/bin\n[ \"$1\" = -l ] && [ \"$2\" = -c ] && eval \"$3\"\n")
	if s := p.cursor(p.manager()); !s.Available || s.Path != p.root+"/login/agent" {
		t.Errorf("status %+v", s)
	}
	p.cfg.LoginShell = p.put("shell", "#!/bin/sh\nexit 1\n")
	if s := p.cursor(p.manager()); s.Available {
		t.Errorf("with a shell that fails: %+v", s)
	}
}

func TestAProgramThatIsNearDoesNotWaitForTheLoginShell(t *testing.T) {
	p := newPlace(t)
	p.put("a/agent", good)
	p.cfg.LoginShell = p.put("shell", "#!/bin/sh\ntrap 'echo released > \"$(dirname \"$0\")/lock\"; exit' TERM\nsleep 1000 &\nwait\n")
	m := p.manager()
	scanned := make(chan []thread.ProviderStatus, 1)
	go func() { scanned <- m.Refresh(t.Context()) }()
	if _, err := m.discovery.find(t.Context(), p.cfg.Drivers[0]); err != nil || m.discovery.searched() {
		t.Errorf("find: %v, searched %v", err, m.discovery.searched())
	}
	if s := (<-scanned)[3]; !s.Available {
		t.Errorf("status %+v", s)
	}
	if _, err := os.Stat(filepath.Join(p.root, "lock")); err != nil {
		t.Error("the shell was not asked to end before it was killed")
	}
}

func TestChildrenGetThePathThatFoundThemWithTheDaemonsBinFirst(t *testing.T) {
	p := newPlace(t)
	p.put("a/agent", good)
	p.cfg.HomeDir = filepath.Join(p.root, "home")
	m := p.manager()
	program, err := m.discovery.find(t.Context(), p.cfg.Drivers[0])
	if err != nil {
		t.Fatal(err)
	}
	dirs := filepath.SplitList(program.SearchPath)
	if dirs[0] != filepath.Join(p.cfg.HomeDir, "bin") || dirs[1] != p.root+"/a" || slices.Contains(dirs, "relative") {
		t.Errorf("search path %v", dirs)
	}
}

// environOf returns what a script wrote of its environment.
func (p *place) environOf(file string) []string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.root, file))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

func TestProbesAndTheLoginShellSeeNoneOfTheDaemonsSecrets(t *testing.T) {
	p := newPlace(t)
	p.put("a/agent", strings.Replace(good, "echo x", "env > \"$(dirname \"$0\")/env\"; echo x", 1))
	p.cfg.LoginShell = p.put("shell", "#!/bin/sh\nenv > \"$(dirname \"$0\")/env\"\nexit 1\n")
	p.cfg.Drivers[0].Inherit = []string{"CURSOR_*"}
	p.cfg.Environ = append(p.cfg.Environ, "USER=me", "TERM=dumb", "CURSOR_CONFIG=c", "HTTPS_PROXY=http://p", "CLAUDECODE=1", "OPENAI_API_KEY=secret", "PEDELEC_TOKEN=secret")
	m := p.managerWith(map[string]string{"OWN": "1"})
	if s := p.cursor(m); !s.Available {
		t.Fatalf("status %+v", s)
	}
	tests := []struct {
		file       string
		seen, kept []string
	}{
		{"a/env", []string{"USER=me", "CURSOR_CONFIG=c", "HTTPS_PROXY=http://p", "OWN=1"}, nil},
		{"env", []string{"USER=me", "TERM=dumb", "HOME=" + p.root}, []string{"CURSOR_CONFIG", "HTTPS_PROXY", "OWN"}},
	}
	for _, tt := range tests {
		environ := p.environOf(tt.file)
		for _, kv := range tt.seen {
			if !slices.Contains(environ, kv) {
				t.Errorf("%s: %s is missing", tt.file, kv)
			}
		}
		for _, name := range append(tt.kept, "CLAUDECODE", "OPENAI_API_KEY", "PEDELEC_TOKEN") {
			if slices.ContainsFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
				t.Errorf("%s: %s is seen", tt.file, name)
			}
		}
	}
}
