package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// startLimit is how long a start may take on a busy machine.
const startLimit = 20 * time.Second

// runtimeFile is what <home>/runtime.json tells.
type runtimeFile struct {
	Protocol     string `json:"protocol"`
	Endpoint     string `json:"endpoint"`
	HTTPEndpoint string `json:"httpEndpoint"`
	PID          int    `json:"pid"`
	Token        string `json:"token"`
	InstanceID   string `json:"instanceId"`
}

// home is a daemon's home with settings that make the scripted agent serve the
// two providers that speak its protocol.
func newHome(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	writeSettings(t, home, nil)
	return home
}

// writeSettings writes the settings of a test: the scripted agent for opencode
// and cursor, and what more is given.
func writeSettings(t testing.TB, home string, more object) {
	t.Helper()
	agent := object{
		"command": []string{binary, "agent", "--scripted"},
		"env":     object{"PEDELEC_SCRIPTED_STATE": filepath.Join(filepath.Dir(home), "sessions")},
	}
	settings := object{
		"defaultProvider":  "opencode",
		"providerSettings": object{"opencode": agent, "cursor": agent},
	}
	for k, v := range more {
		settings[k] = v
	}
	b, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "settings.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// daemon is a running program under test.
type daemon struct {
	t    testing.TB
	home string
	info runtimeFile
	cmd  *exec.Cmd
	log  string // file that takes what it prints

	exited  chan struct{}
	exitErr error // after exited

	mu    sync.Mutex
	conns []*conn
}

// start starts a daemon and waits until it listens. It is ended when the test
// ends. env adds to the environment.
func start(t testing.TB, home string, env ...string) *daemon {
	t.Helper()
	d, err := tryStart(t, home, env...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func tryStart(t testing.TB, home string, env ...string) (*daemon, error) {
	t.Helper()
	d := launch(t, home, env...)
	return d, d.await()
}

// launch starts the process and returns at once.
func launch(t testing.TB, home string, env ...string) *daemon {
	t.Helper()
	return launchCommand(t, home, serveCommand(t, home), env...)
}

// launchCommand is launch with another command line.
func launchCommand(t testing.TB, home string, command []string, env ...string) *daemon {
	t.Helper()
	d := spawn(t, home, command, env...)
	t.Cleanup(d.cleanUp)
	return d
}

func serveCommand(t testing.TB, home string) []string {
	return []string{binary, "serve", "--home", home, "--log-level", logLevel(t)}
}

// spawn is launch for one who ends the daemon by cleanUp himself.
func spawn(t testing.TB, home string, command []string, env ...string) *daemon {
	t.Helper()
	logFile, err := os.CreateTemp(t.TempDir(), "daemon-*.log")
	if err != nil {
		t.Fatal(err)
	}
	defer logFile.Close()
	d := &daemon{t: t, home: home, log: logFile.Name(), exited: make(chan struct{})}
	d.cmd = exec.Command(command[0], command[1:]...)
	d.cmd.Env = append(cleanEnv(), env...)
	d.cmd.Stdout, d.cmd.Stderr = logFile, logFile
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.exitErr = d.cmd.Wait()
		close(d.exited)
	}()
	return d
}

// logLevel is debug, so that a failure can be understood, but for measurements.
func logLevel(t testing.TB) string {
	if strings.HasPrefix(t.Name(), "TestBench") {
		return "info"
	}
	return "debug"
}

// cleanEnv is the test's environment without what would steer the daemon, and
// without the user's login shell: what its start files do takes as long as it
// likes, and must not be cut off by a test that kills the daemon.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PEDELEC_") && !strings.HasPrefix(kv, "SHELL=") {
			env = append(env, kv)
		}
	}
	return env
}

// await waits until the daemon has told where it listens.
func (d *daemon) await() error {
	return waitFor(startLimit, "the daemon to listen", func() (bool, error) {
		select {
		case <-d.exited:
			return false, fmt.Errorf("the daemon left at its start: %v", d.exitErr)
		default:
		}
		b, err := os.ReadFile(filepath.Join(d.home, "runtime.json"))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var info runtimeFile
		if err := json.Unmarshal(b, &info); err != nil {
			return false, fmt.Errorf("runtime.json: %w", err)
		}
		d.info = info
		return info.PID == d.cmd.Process.Pid, nil // else it is a dead daemon's
	})
}

// waitFor asks again and again, since there is nothing to wait on for the files
// and processes of another program.
func waitFor(d time.Duration, what string, done func() (bool, error)) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(d)
	for {
		ok, err := done()
		if err != nil {
			return err
		}
		if ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s", d, what)
		}
		<-tick.C
	}
}

// dial opens a connection that is closed when the test ends.
func (d *daemon) dial() *conn {
	d.t.Helper()
	c, err := open(d.info.Endpoint)
	if err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	d.conns = append(d.conns, c)
	d.mu.Unlock()
	return c
}

// operator opens a connection that carries the token.
func (d *daemon) operator() *conn {
	d.t.Helper()
	c := d.dial()
	c.token = d.info.Token
	return c
}

// kill ends the daemon as a crash would, and waits.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have left by itself
	<-d.exited
}

// left reports whether the daemon is dead.
func (d *daemon) left() bool {
	select {
	case <-d.exited:
		return true
	default:
		return false
	}
}

// forget removes the log of a dead daemon, unless it is worth a look.
func (d *daemon) forget() {
	if d.t.Failed() {
		d.t.Logf("the daemon's log:\n%s", d.logTail())
		return
	}
	_ = os.Remove(d.log) // a file more in a temporary folder
}

// stop asks the daemon to leave, and returns its exit status.
func (d *daemon) stop() (int, error) {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-d.exited:
		return d.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		return 0, errors.New("the daemon did not leave in time")
	}
}

func (d *daemon) cleanUp() {
	d.mu.Lock()
	for _, c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	d.kill()
	killOrphans(d.home)
	if d.t.Failed() {
		d.t.Logf("the daemon's log:\n%s", d.logTail())
	}
}

// logTail returns the end of what the daemon printed.
func (d *daemon) logTail() string {
	const most = 120
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// pong fails the test unless the daemon answers a new connection.
func (d *daemon) pong() {
	d.t.Helper()
	c := d.dial()
	defer c.Close()
	var r struct {
		Connected bool `json:"connected"`
		ProcessID int  `json:"processId"`
	}
	if err := c.call("ping", nil, &r); err != nil {
		d.t.Fatalf("ping: %v", err)
	}
	if !r.Connected || r.ProcessID != d.cmd.Process.Pid {
		d.t.Fatalf("ping says %+v; the daemon's process is %d", r, d.cmd.Process.Pid)
	}
}
