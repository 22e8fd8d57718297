package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// severedEnv marks the process in whose network namespace the loopback interface
// may go down.
const severedEnv = "PEDELEC_E2E_SEVERED"

// TestClientsThatAreGoneWithoutAWordAreFound takes the network away under
// connected subscribers, so that the daemon hears nothing of their end: one that
// is never sent anything, one that is sent a little, which the system can keep for
// a long time, one that is sent much, and the same over a WebSocket. All of them
// are closed within a bounded time, and a thread that is to end without its
// client ends.
func TestClientsThatAreGoneWithoutAWordAreFound(t *testing.T) {
	if os.Getenv(severedEnv) == "" {
		t.Parallel()
		inNetworkNamespace(t)
		return
	}
	d := start(t, newHome(t), "PEDELEC_DURATIONS=keep-alive=1s;ping=300ms;pong=1s;write-timeout=1s;auto-end=200ms;session=100ms;linger=50ms")
	c := d.dial()
	threads := map[string]string{ // what its subscribers are sent
		"nothing":  "",
		"a little": "wait 500ms ; echo a little",
		"much":     "wait 500ms ; stream 3000 of 10000",
	}
	ids := map[string]string{}
	for kind := range threads {
		var created snapshot
		if err := c.call("create_thread", object{"provider": "opencode", "autoEndOnDisconnect": kind == "nothing"}, &created); err != nil {
			t.Fatal(err)
		}
		ids[kind] = created.ThreadID
		for _, via := range transports {
			s, err := via.open(d.info, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.call("subscribe_thread", object{"threadId": created.ThreadID}, nil); err != nil {
				t.Fatal(err)
			}
			// Not closed before the end: the client cannot say goodbye either.
			t.Cleanup(s.Close)
		}
	}
	for kind, text := range threads {
		if text != "" {
			if err := c.call("send_text", object{"threadId": ids[kind], "message": text}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.Close()
	if err := awaitMetrics(d, map[string]float64{"pedelec_ipc_connections": 3, "pedelec_ipc_websockets": 3}); err != nil {
		t.Fatal(err)
	}

	if err := setLoopback(false); err != nil {
		t.Fatal(err)
	}
	// The daemon cannot be asked now. Its listeners are the sockets that stay.
	err := waitFor(patience, "all connections to be closed", func() (bool, error) {
		n, err := establishedSockets(d.cmd.Process.Pid)
		return n == 0, err
	})
	if raised := setLoopback(true); raised != nil {
		t.Fatal(raised)
	}
	if err != nil {
		t.Error(err)
	}
	if err := awaitMetrics(d, map[string]float64{"pedelec_ipc_connections": 0, "pedelec_ipc_websockets": 0, "pedelec_ipc_subscriptions": 0, "pedelec_ipc_panics_total": 0}); err != nil {
		t.Error(err)
	}
	asking := d.dial()
	if err := waitFor(patience, "the thread without its client to end", func() (bool, error) {
		var s snapshot
		err := asking.call("thread_snapshot", object{"threadId": ids["nothing"]}, &s)
		return s.Status == "ended", err
	}); err != nil {
		t.Error(err)
	}
	asking.Close()
	if err := awaitMetrics(d, map[string]float64{"pedelec_threads_loaded": 0}); err != nil {
		t.Error(err)
	}
}

// establishedSockets counts the TCP connections that a process holds in this
// network namespace.
func establishedSockets(pid int) (int, error) {
	links, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	if err != nil {
		return 0, err
	}
	held := map[string]bool{}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil { // else it was closed meanwhile
			held[to] = true
		}
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	const listening = "0A"
	count := 0
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && held["socket:["+f[9]+"]"] && f[3] != listening {
			count++
		}
	}
	return count, nil
}

// inNetworkNamespace runs the test again in a network of its own.
func inNetworkNamespace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can take a network away")
	}
	runtime.LockOSThread() // the kernel kills the child when this thread is gone
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), severedEnv+"=1", insideEnv+"=1", "PEDELEC_E2E_BINARY="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		t.Logf("in a network of its own:\n%s", out)
	case errors.As(err, &exit):
		t.Errorf("in a network of its own: %v\n%s", err, out)
	default:
		t.Skipf("no network namespace can be made: %v", err)
	}
}
