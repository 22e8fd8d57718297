package e2e

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var startRounds = flag.Int("starts.rounds", 12, "rounds of starts at the same moment")

// runtimeFiles are the names by which clients and agents find the daemon.
var runtimeFiles = []string{"runtime.json", "agent-runtime.json"}

// said is all that the process printed.
func (d *daemon) said() string {
	d.t.Helper()
	b, err := os.ReadFile(d.log)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// code waits for the end of the process and returns its exit status.
func (d *daemon) code() int {
	d.t.Helper()
	select {
	case <-d.exited:
	case <-time.After(startLimit):
		d.t.Fatalf("process %d did not leave; it has said:\n%s", d.cmd.Process.Pid, d.logTail())
	}
	return d.cmd.ProcessState.ExitCode()
}

// alreadyServes is what a start says beside a daemon that serves.
func alreadyServes(d *daemon) string {
	return fmt.Sprintf("pedelec-core serves %s already (pid %d, %s).\n", d.home, d.info.PID, d.info.Endpoint)
}

// wantQuiet checks that a start has left because another daemon serves.
func (d *daemon) wantQuiet(serving *daemon) {
	d.t.Helper()
	if code := d.code(); code != 0 {
		d.t.Errorf("a start beside a daemon that serves left with %d", code)
	}
	if got, want := d.said(), alreadyServes(serving); got != want {
		d.t.Errorf("it said\n%swant\n%s", got, want)
	}
}

// soleServer waits until all of the processes but one have left and that one
// serves, and returns it.
func soleServer(t *testing.T, all []*daemon) *daemon {
	t.Helper()
	var serving *daemon
	err := waitFor(startLimit, "one of the starts to serve", func() (bool, error) {
		running := slices.DeleteFunc(slices.Clone(all), (*daemon).gone)
		if len(running) == 0 {
			return false, errors.New("none of the starts stayed")
		}
		if len(running) > 1 {
			return false, nil
		}
		serving = running[0]
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := serving.await(); err != nil {
		t.Fatal(err)
	}
	serving.pong()
	return serving
}

func (d *daemon) gone() bool {
	select {
	case <-d.exited:
		return true
	default:
		return false
	}
}

// belongings are what further starts must not touch of a daemon that serves.
type belongings struct {
	d      *daemon
	thread string
	file   string            // in the thread's temporary workspace
	files  map[string][]byte // the runtime files
}

func (d *daemon) belongings() *belongings {
	d.t.Helper()
	b := &belongings{d: d, files: map[string][]byte{}}
	c := d.dial()
	defer c.Close()
	b.thread = newThread(d.t, c)
	b.file = filepath.Join(d.home, "workspaces", b.thread, "kept.txt")
	if err := os.WriteFile(b.file, []byte("kept"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	for _, name := range runtimeFiles {
		content, err := os.ReadFile(filepath.Join(d.home, name))
		if err != nil {
			d.t.Fatal(err)
		}
		b.files[name] = content
	}
	return b
}

// untouched checks that all is still there.
func (b *belongings) untouched() {
	t := b.d.t
	t.Helper()
	b.d.pong()
	for name, want := range b.files {
		if got, err := os.ReadFile(filepath.Join(b.d.home, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the daemon wrote: %s, %v", name, got, err)
		}
	}
	if got, err := os.ReadFile(b.file); err != nil || string(got) != "kept" {
		t.Errorf("the file in the thread's workspace is %q, %v", got, err)
	}
	c := b.d.dial()
	defer c.Close()
	var s snapshot
	if err := c.call("thread_snapshot", object{"threadId": b.thread}, &s); err != nil || s.Status != "idle" {
		t.Errorf("the thread is %q, %v", s.Status, err)
	}
}

// TestOneOfManyStartsServes starts several daemons of one home at the same moment:
// one serves, the others say so and leave, and nothing of the one is touched.
func TestOneOfManyStartsServes(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	for round := range *startRounds {
		starts := 2
		if round%4 == 3 {
			starts = 5
		}
		var all []*daemon
		for range starts {
			all = append(all, launch(t, home))
		}
		serving := soleServer(t, all)
		for _, d := range all {
			if d != serving {
				d.wantQuiet(serving)
			}
		}
		kept := serving.belongings()
		late := []*daemon{launch(t, home), launch(t, home)}
		for running := true; running; {
			kept.d.pong()
			running = slices.ContainsFunc(late, func(d *daemon) bool { return !d.gone() })
		}
		for _, d := range late {
			d.wantQuiet(serving)
		}
		kept.untouched()
		if round%2 == 0 {
			serving.kill()
			continue
		}
		if code, err := serving.stop(); err != nil || code != 0 {
			t.Errorf("it left with %d: %v", code, err)
		}
	}
}

// TestNewcomersReplaceAKilledDaemon kills the daemon that serves while others
// start: in the end exactly one serves, and none gives up.
func TestNewcomersReplaceAKilledDaemon(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	serving := start(t, home)
	for range *startRounds {
		var all []*daemon
		for range rand.IntN(3) {
			all = append(all, launch(t, home))
		}
		<-time.After(rand.N(40 * time.Millisecond)) // a random moment of the newcomers' lives
		killed := serving
		killed.kill()
		early := len(all)
		for range 1 + rand.IntN(2) {
			all = append(all, launch(t, home))
		}
		serving = soleServer(t, all)
		for i, d := range all {
			switch {
			case d == serving:
			case i < early && d.code() == 0 && d.said() == alreadyServes(killed): // it was so
			default:
				d.wantQuiet(serving)
			}
		}
		kept := serving.belongings()
		kept.untouched()
	}
}

// TestANewcomerTakesOverFromADaemonThatLeaves starts a daemon while another one is
// on its way out, held up by a disk that is slow to take the end of a turn and by
// an agent that ignores that it shall go.
func TestANewcomerTakesOverFromADaemonThatLeaves(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	leaving := start(t, home, "PEDELEC_FAILPOINTS=lifecycle.commit.before=sleep:500ms@*")
	c := leaving.dial()
	id := newThread(t, c)
	if err := c.call("subscribe_thread", object{"threadId": id}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.call("send_text", object{"threadId": id, "message": "ignore-term ; message begun | on ; hang-hard"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.until(patience, func(e event) bool { return e.Type == "assistant_message" }); err != nil {
		t.Fatal(err)
	}
	if err := leaving.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next := launch(t, home)
	if err := next.await(); err != nil {
		t.Fatalf("%v; it said:\n%s", err, next.logTail())
	}
	// Its process may take a moment longer, but nobody is answered by it any more.
	if nc, err := net.Dial("tcp", leaving.info.Endpoint); err == nil {
		nc.Close()
		if leaving.info.Endpoint != next.info.Endpoint { // it may have been given the same port
			t.Error("the newcomer serves before the other has left")
		}
	}
	if code := leaving.code(); code != 0 {
		t.Errorf("the one that left did so with %d", code)
	}
	next.belongings().untouched()
	if strings.Contains(next.said(), "cleared what an earlier run") {
		t.Error("the one that left did not end its agents")
	}
}

// TestAStartBesideADaemonSetsNothingAside starts a daemon beside one that serves and
// whose folder of workspaces has been taken away for a while.
func TestAStartBesideADaemonSetsNothingAside(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	serving := start(t, home)
	folder := filepath.Join(home, "workspaces")
	for _, err := range []error{os.MkdirAll(folder, 0o700), os.Rename(folder, folder+".away"), os.WriteFile(folder, []byte("somebody's"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	launch(t, home).wantQuiet(serving)
	if got, err := os.ReadFile(folder); err != nil || string(got) != "somebody's" {
		t.Errorf("%s is %q now, %v", folder, got, err)
	}
}
