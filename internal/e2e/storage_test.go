package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// commitsOfATurn is more than the commits of creating a thread, running a turn
// and ending it.
const commitsOfATurn = 14

// TestCommitReportedAsFailedIsNoLie lets each commit in turn report an error
// although it took place, as a database may: whatever the client is told must be
// so, and nothing may happen twice.
func TestCommitReportedAsFailedIsNoLie(t *testing.T) {
	for n := 1; n <= commitsOfATurn; n++ {
		t.Run(fmt.Sprint("commit ", n), func(t *testing.T) {
			t.Parallel()
			home := newHome(t)
			d := start(t, home, fmt.Sprintf("PEDELEC_FAILPOINTS=store.commit.fail=error@%d", n), "PEDELEC_DURATIONS=retry=20ms")
			c := d.dial()
			var created struct {
				ThreadID string `json:"threadId"`
			}
			payload := object{"provider": "opencode", "workspace": object{"path": filepath.Join(filepath.Dir(home), "work")}}
			if err := c.call("create_thread", payload, &created); err != nil {
				t.Fatalf("create: %v", err)
			}
			w := newWitness(created.ThreadID, false)
			if err := c.call("subscribe_thread", object{"threadId": w.id, "afterSeq": 0}, nil); err != nil {
				t.Fatal(err)
			}
			told := func(done func(event) bool) {
				t.Helper()
				events, err := c.until(patience, done)
				for _, e := range events {
					if err := w.told(e); err != nil {
						t.Error(err)
					}
				}
				if err != nil {
					t.Fatalf("%v; so far %s", err, kinds(events))
				}
				if e := events[len(events)-1]; e.Type == "operation_completed" && !e.Success {
					t.Errorf("the turn ended with %s", e.raw)
				}
			}
			if err := c.call("send_text", object{"threadId": w.id, "operationId": "op", "message": "message one | two"}, nil); err != nil {
				t.Fatalf("send: %v", err)
			}
			w.admitted("op")
			told(func(e event) bool { return e.Type == "operation_completed" })
			if err := c.call("end_thread", object{"threadId": w.id}, nil); err != nil {
				t.Fatalf("end: %v", err)
			}
			w.end(true)
			told(func(e event) bool { return e.Type == "status_changed" && e.Status == "ended" })

			d.kill()
			d = start(t, home)
			journal := verifyAfter(t, d, w)
			if want := "created, status_changed idle, status_changed running, provider_session_id_updated, assistant_message, assistant_message, " +
				"usage_updated, status_changed idle, operation_completed, ended, status_changed ended"; kinds(journal) != want {
				t.Errorf("the journal has %s\nwant %s", kinds(journal), want)
			}
		})
	}
}

// verifyAfter checks a witness against a restarted daemon and returns the journal.
func verifyAfter(t *testing.T, d *daemon, w *witness) []event {
	t.Helper()
	c := d.dial()
	journal, err := w.journal(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.compare(journal); err != nil {
		t.Error(err)
	}
	var s snapshot
	if err := c.call("thread_snapshot", object{"threadId": w.id}, &s); err != nil {
		t.Fatal(err)
	}
	if w.ended && s.Status != "ended" {
		t.Errorf("its end was acknowledged, it is %s", s.Status)
	}
	return journal
}

// TestDamagedDatabaseIsMovedAside starts on a database that is none: nothing is
// deleted, and the daemon serves.
func TestDamagedDatabaseIsMovedAside(t *testing.T) {
	for name, content := range map[string]string{
		"garbage": strings.Repeat("this is no database ", 1000),
		"cut":     "",
	} {
		t.Run(name, func(t *testing.T) {
			home := newHome(t)
			path := filepath.Join(home, "core.db")
			if content == "" {
				d := start(t, home)
				newThread(t, d.dial())
				d.kill()
				whole, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				content = string(whole[:len(whole)/3])
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			d := start(t, home)
			newThread(t, d.dial())
			aside, err := filepath.Glob(path + "*")
			if err != nil {
				t.Fatal(err)
			}
			kept := slices.ContainsFunc(aside, func(p string) bool {
				b, err := os.ReadFile(p)
				return err == nil && string(b) == content
			})
			if !kept {
				t.Errorf("the damaged file is not kept as it was; there are %v", aside)
			}
		})
	}
}
