package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Sizes of the full disk.
const (
	answerBytes  = 300_000 // more than the database has free pages for
	mostRefusals = 2_000   // threads that are tried until the disk refuses one
)

// TestDiskFullInATurn fills the disk under the database while an agent works: the
// daemon refuses what it cannot record, stays up, keeps the agent's answer and
// tells it once there is room again.
func TestDiskFullInATurn(t *testing.T) {
	if os.Getenv(mountedEnv) == "" {
		inMountNamespace(t)
		return
	}
	home := newHome(t)
	mount(t, home, diskSize)
	writeSettings(t, home, nil)
	work := filepath.Join(filepath.Dir(home), "work")
	d := start(t, home)
	c, other := d.dial(), d.dial()
	create := func(n int) (string, error) {
		var created struct {
			ThreadID string `json:"threadId"`
		}
		err := other.call("create_thread", object{"provider": "opencode", "workspace": object{"path": filepath.Join(work, fmt.Sprint(n))}}, &created)
		return created.ThreadID, err
	}
	working, err := create(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.call("subscribe_thread", object{"threadId": working}, nil); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("stream 1 ; wait 2s ; stream 1 of %d", answerBytes)
	if err := c.call("send_text", object{"threadId": working, "operationId": "op", "message": text}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.until(patience, func(e event) bool { return e.Type == "assistant_delta" }); err != nil {
		t.Fatal(err)
	}

	filler := filepath.Join(home, "filler")
	fill(t, filler)
	acked := []string{working}
	for n := 1; ; n++ {
		id, err := create(n)
		if err == nil {
			acked = append(acked, id)
			if n == mostRefusals {
				t.Fatal("the disk is full and takes everything")
			}
			continue
		}
		if codeOf(err) != "STORAGE_FULL" {
			t.Errorf("create on a full disk: %v", err)
		}
		break
	}
	t.Logf("%d threads found room in what the file had free", len(acked)-1)

	// The answer is there, its end is not: that could not be recorded.
	var s snapshot
	if err := waitFor(patience, "the agent to be done", func() (bool, error) {
		if err := other.call("thread_snapshot", object{"threadId": working}, &s); err != nil {
			return false, err
		}
		turns, err := runningTurns(d)
		return turns == 0, err
	}); err != nil {
		t.Fatal(err)
	}
	if err := other.call("thread_snapshot", object{"threadId": working}, &s); err != nil {
		t.Errorf("a snapshot on a full disk: %v", err)
	}
	if s.Status != "running" {
		t.Errorf("the thread is %s, though its end cannot be recorded", s.Status)
	}
	if got := codeOf(other.call("end_thread", object{"threadId": working}, nil)); got != "STORAGE_FULL" {
		t.Errorf("end on a full disk: %s", got)
	}
	d.pong()

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	events, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" })
	if err != nil {
		t.Fatalf("with space again: %v; so far %s", err, kinds(events))
	}
	if last := events[len(events)-1]; !last.Success {
		t.Errorf("the turn ended with %s", last.raw)
	}
	messages := 0
	for _, e := range events {
		if e.Type == "assistant_message" && len(e.Text) >= answerBytes {
			messages++
		}
	}
	if messages != 1 {
		t.Errorf("the answer was told %d times: %s", messages, kinds(events))
	}
	if code, err := d.stop(); err != nil || code != 0 {
		t.Errorf("the daemon left with %d: %v", code, err)
	}
	d = start(t, home)
	c = d.dial()
	for _, id := range acked {
		if err := c.call("thread_snapshot", object{"threadId": id}, nil); err != nil {
			t.Errorf("an acknowledged thread: %v", err)
		}
	}
}

// runningTurns asks the daemon how many turns its agents run.
func runningTurns(d *daemon) (int, error) {
	c, err := open(d.info.Endpoint)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.token = d.info.Token
	var list struct {
		Runtimes []struct {
			Turns int `json:"turns"`
		} `json:"runtimes"`
	}
	err = c.call("list_runtimes", nil, &list)
	turns := 0
	for _, r := range list.Runtimes {
		turns += r.Turns
	}
	return turns, err
}

// fill writes a file until there is no room for another byte.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err == nil {
			continue
		} else if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		size /= 2
	}
}
