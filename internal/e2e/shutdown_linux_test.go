package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheDaemonLeavesAFullDisk tells a daemon to leave that cannot record how its
// turns end: it leaves in time all the same and says what it could not do, and the
// next start puts that in order.
func TestTheDaemonLeavesAFullDisk(t *testing.T) {
	if os.Getenv(mountedEnv) == "" {
		inMountNamespace(t)
		return
	}
	home := newHome(t)
	mount(t, home, diskSize)
	writeSettings(t, home, nil)
	d := start(t, home)
	p := newPage(t, d, nil)
	p.busy()
	waiting := d.dial()
	filler := filepath.Join(home, "filler")
	fill(t, filler)
	for n := 0; ; n++ {
		var created snapshot
		if err := waiting.call("create_thread", object{"provider": "opencode"}, &created); codeOf(err) == "STORAGE_FULL" {
			break
		}
		if n == mostRefusals {
			t.Fatal("the disk is full and takes everything")
		}
	}
	began := time.Now()
	d.signal(syscall.SIGTERM)
	code := d.code()
	took := time.Since(began)
	t.Logf("it left with %d after %v and said at last\n%s", code, took, d.lastLines(3))
	if took > leaveLimit {
		t.Errorf("it took %v", took)
	}
	if code == 0 {
		t.Log("it could record that it has left")
	} else if !strings.Contains(d.said(), "the daemon has left, but not everything could be put away: ") {
		t.Errorf("it left with %d", code)
	}
	for _, name := range runtimeFiles {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	if left := agents(home); len(left) > 0 {
		t.Errorf("agents are left: %v", left)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	next := start(t, home)
	var s snapshot
	if err := next.dial().call("thread_snapshot", object{"threadId": p.id}, &s); err != nil || s.Status != "ended" {
		t.Errorf("after the restart the thread is %q, %v", s.Status, err)
	}
}

// lastLines are the last lines that the process printed.
func (d *daemon) lastLines(n int) string {
	lines := strings.Split(strings.TrimSpace(d.said()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// TestTheDaemonLeavesInTimeWhateverItsClientsAndAgentsDo has at once a subscriber that
// never reads, a client that never stops asking, one that has said nothing, and agents
// that only a kill ends.
func TestTheDaemonLeavesInTimeWhateverItsClientsAndAgentsDo(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t))
	p := newPage(t, d, nil)
	p.send("ignore-term ; grandchild ; stream 1 ; hang-hard")
	p.await("assistant_delta")

	deaf := newPage(t, d, nil)
	mute, err := net.Dial("tcp", d.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, id := range []string{deaf.id, p.id} {
		if _, err := fmt.Fprintf(mute, `{"requestId":"s","type":"subscribe_thread","payload":{"threadId":%q}}`+"\n", id); err != nil {
			t.Fatal(err)
		}
	}
	for range 12 { // more than the system keeps for a socket
		deaf.says(deaf.send("stream 1 of 900000"))
	}
	deaf.send("stream 1 ; hang-hard")
	deaf.await("assistant_delta")

	silent, err := net.Dial("tcp", d.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	eager := d.dial()
	asked := make(chan int)
	go func() { // ends with the daemon
		n := 0
		for eager.call("ping", nil, nil) == nil {
			n++
		}
		asked <- n
	}()
	began := time.Now()
	if code, err := d.stop(); err != nil || code != 0 {
		t.Errorf("it left with %d: %v", code, err)
	}
	took := time.Since(began)
	if took > leaveLimit {
		t.Errorf("it took %v", took)
	}
	t.Logf("it left after %v; %d pings were answered", took, <-asked)
	nothingLeft(t, d.home)
}
