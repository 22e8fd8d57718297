//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// Shape of a database of which a page gets lost.
const (
	manyThreads    = 1_500 // on many pages
	lostThread     = manyThreads / 2
	mostOnAPage    = 100 // threads
	triesOfOneTurn = 20  // a new thread may belong onto the lost page
)

// TestPageThatGetsLostWhileItServes spoils a page of the database under a daemon that
// runs: it says so, once, lists all that is not on it, and goes on with all else; so
// does the next daemon, whose sweep settles what lies behind the page.
func TestPageThatGetsLostWhileItServes(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	fillStore(t, home, manyThreads)
	path := filepath.Join(home, "core.db")
	page, size := pageOf(t, path, filepath.Join("workspaces", fmt.Sprintf("t%016d", lostThread)))
	d := start(t, home)
	if n := len(listAll(t, d)); n != manyThreads {
		t.Fatalf("%d threads are listed", n)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, size), page*size); err != nil {
		t.Fatal(err)
	}
	lost := behindTheLostPage(t, d)
	d.kill()

	d = start(t, home, "PEDELEC_DURATIONS=sweep-delay=50ms")
	settled := regexp.MustCompile(`(?m)^pedelec_operations_total\{kind="user",outcome="THREAD_ENDED"\} (\d+)$`)
	if err := waitFor(patience, "the sweep to come behind the lost page", func() (bool, error) {
		_, text := httpGet(t, d, "/metrics")
		m := settled.FindStringSubmatch(text)
		if m == nil {
			return false, nil
		}
		n, err := strconv.Atoi(m[1])
		return n == manyThreads-lost, err
	}); err != nil {
		t.Error(err)
	}
	behindTheLostPage(t, d)
	if code, err := d.stop(); err != nil || code != 0 {
		t.Errorf("the daemon left with %d: %v", code, err)
	}
}

// TestADatabaseThatIsReplacedUnderADaemonTakesNoChange puts another file in the place of
// the database that a daemon has open: what is refused is said to be, what has come is
// left alone, and with the file back all goes on.
func TestADatabaseThatIsReplacedUnderADaemonTakesNoChange(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	d := start(t, home)
	c := d.dial()
	before := newThread(t, c)
	path := filepath.Join(home, "core.db")
	for _, step := range []func() error{
		func() error { return os.Rename(path, path+".away") },
		func() error { return os.WriteFile(path, []byte("somebody else's"), 0o600) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if got := codeOf(c.call("create_thread", object{"provider": "opencode"}, nil)); got != "STORAGE_FAILED" {
			t.Errorf("a new thread is answered with %q", got)
		}
		if err := c.call("thread_snapshot", object{"threadId": before}, nil); err != nil {
			t.Errorf("what is stored cannot be read: %v", err)
		}
		if status, text := httpGet(t, d, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "STORAGE_FAILED") {
			t.Errorf("readyz: %d %s", status, text)
		}
	}
	d.awaitSaid("The database was removed or replaced")

	if content, err := os.ReadFile(path); err != nil || string(content) != "somebody else's" {
		t.Errorf("what came into its place is now %q, %v", content, err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	after := newThread(t, c)
	if status, text := httpGet(t, d, "/readyz"); status != http.StatusOK {
		t.Errorf("readyz with the file back: %d %s", status, text)
	}
	d.kill()

	listed := listAll(t, start(t, home))
	if len(listed) != 2 || !listed[before] || !listed[after] {
		t.Errorf("the next start lists %v, want %s and %s", listed, before, after)
	}
}

// behindTheLostPage checks what a daemon does whose database lacks a page, and
// returns how many threads are lost.
func behindTheLostPage(t *testing.T, d *daemon) (lost int) {
	t.Helper()
	listed := listAll(t, d)
	old := 0
	for id := range listed {
		if strings.HasPrefix(id, "t0000000") {
			old++
		}
	}
	if lost = manyThreads - old; lost < 1 || lost > mostOnAPage {
		t.Errorf("%d threads of %d are listed", old, manyThreads)
	}
	for i, want := range map[int]bool{0: true, lostThread: false, manyThreads - 1: true} {
		if id := fmt.Sprintf("t%016d", i); listed[id] != want {
			t.Errorf("%s is listed: %v", id, listed[id])
		}
	}
	if got := codeOf(d.operator().call("thread_snapshot", object{"threadId": fmt.Sprintf("t%016d", lostThread)}, nil)); got != "STORAGE_FAILED" {
		t.Errorf("a lost thread is answered with %q", got)
	}
	if status, text := httpGet(t, d, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "STORAGE_FAILED") {
		t.Errorf("readyz: %d %s", status, text)
	}
	if told := doctor(d.home); !strings.Contains(told, "STORAGE_FAILED") {
		t.Errorf("doctor: %s", told)
	}
	var err error
	for range triesOfOneTurn {
		if err = oneTurn(d.dial()); codeOf(err) != "STORAGE_FAILED" {
			break
		}
	}
	if err != nil {
		t.Errorf("a turn of a new thread: %v", err)
	}
	printed, err := os.ReadFile(d.log)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(printed, []byte("cannot be read; stop the daemon")); n != 1 {
		t.Errorf("the log tells of it %d times", n)
	}
	return lost
}

// listAll lists the ids of all threads.
func listAll(t *testing.T, d *daemon) map[string]bool {
	t.Helper()
	c := d.operator()
	defer c.Close()
	all := map[string]bool{}
	for after := ""; ; {
		var page struct {
			Threads []struct {
				ThreadID string `json:"threadId"`
			} `json:"threads"`
			Next string `json:"next"`
		}
		payload := object{"limit": 200}
		if after != "" {
			payload["after"] = after
		}
		if err := c.call("list_threads", payload, &page); err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Threads {
			all[row.ThreadID] = true
		}
		if after = page.Next; after == "" {
			return all
		}
	}
}

// pageOf finds the leaf page of a closed database that holds some bytes.
func pageOf(t *testing.T, path, holds string) (page, size int64) {
	t.Helper()
	page = -1
	inDatabase(t, path, func(tx *bolt.Tx) error {
		size = int64(tx.DB().Info().PageSize)
		whole, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i := range tx.Size() / size {
			info, err := tx.Page(int(i))
			if err != nil {
				return err
			}
			if info.Type == "leaf" && bytes.Contains(whole[i*size:(i+1)*size], []byte(holds)) {
				page = i
			}
		}
		return nil
	})
	if page < 0 {
		t.Fatalf("no page holds %q", holds)
	}
	return page, size
}

// httpGet asks a daemon's HTTP listener.
func httpGet(t *testing.T, d *daemon, path string) (status int, text string) {
	t.Helper()
	res, err := transferClient.Get("http://" + d.info.HTTPEndpoint + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
